"""The countries that records can be restricted to: listed, and read out of what clients send."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import get

from api.http.errors import documented, invalid
from media.countries import COUNTRIES, Country, find_country

__all__ = ["HANDLERS", "CountryReferences", "read_countries"]

# There are 250; who names each twice still gets an answer in our words.
_MOST: Final = 1_000
CountryReferences = Annotated[list[int | str], msgspec.Meta(max_length=_MOST)]


class CountryItem(msgspec.Struct, frozen=True, kw_only=True):
    """A country in the list: its numeric code (ISO 3166-1) and its name in English."""

    id: int
    name: str


class CountryList(msgspec.Struct, frozen=True, kw_only=True):
    """Every country."""

    data: list[CountryItem]


_LIST: Final = CountryList(data=[CountryItem(id=each.number, name=each.name) for each in COUNTRIES])


def read_countries(references: Sequence[int | str]) -> tuple[Country, ...]:
    """Return the countries that a client named by number or by letters, once each, in its order.

    Raises:
        ApiError: 422, naming those that are none.
    """
    found: dict[int, Country] = {}
    faults: list[str] = []
    for reference in references:
        named = find_country(reference)
        if named is None:
            faults.append(f"There is no country {str(reference)[:20]!r}.")
        else:
            found[named.number] = named
    if faults:
        raise invalid({"countries": faults[:50]})
    return tuple(found.values())


@get(
    "/countries",
    summary="List countries",
    tags=["countries"],
    responses=documented(HTTPStatus.UNAUTHORIZED),
)
async def list_countries() -> CountryList:
    """List every country of ISO 3166-1; its id can stand in the `countries` of a record."""
    return _LIST


HANDLERS: Final = (list_countries,)
