"""The countries that streams and videos can be restricted to."""

from typing import Final

import msgspec
from litestar import Controller, get

from api.http.errors import documented
from media.countries import COUNTRIES


class CountryItem(msgspec.Struct, frozen=True, kw_only=True):
    """A country in the list: its numeric code (ISO 3166-1) and its name in English."""

    id: int
    name: str


class CountryList(msgspec.Struct, frozen=True, kw_only=True):
    """Every country."""

    data: list[CountryItem]


_LIST: Final = CountryList(data=[CountryItem(id=each.number, name=each.name) for each in COUNTRIES])


class CountriesController(Controller):
    """Countries."""

    tags = ("countries",)

    @get("/countries", summary="List countries", responses=documented())
    async def list_countries(self) -> CountryList:
        """List every country of ISO 3166-1; its id can be used in the `countries` of a record."""
        return _LIST
