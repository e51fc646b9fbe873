"""How the bodies of streams and videos refer to tags, countries and resolutions."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from api.http.errors import invalid
from api.schemas.text_fields import Name
from media.countries import Country, find_country
from media.ladder import SELECTABLE_BOXES
from storage.catalog.library.labels import TagById, TagByName, TagWanted

_RESOLUTIONS: Final = frozenset(box.number for box in SELECTABLE_BOXES)

_MAX_TAGS: Final = 100
# There are 250 countries: a body may name each several times, by number and by code.
_MAX_COUNTRIES: Final = 1_000


class TagReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tag of a record: by its id, or by its name, which makes it where there is none yet.

    With both, the id counts: so a record's own tags can be sent back as they were shown.
    """

    id: int | msgspec.UnsetType = msgspec.UNSET
    name: Name | msgspec.UnsetType = msgspec.UNSET


TagReferences = Annotated[list[TagReference], msgspec.Meta(max_length=_MAX_TAGS)]
# By numeric or alpha-2 code (ISO 3166-1).
CountryReferences = Annotated[list[int | str], msgspec.Meta(max_length=_MAX_COUNTRIES)]


def wanted_tags(references: Sequence[TagReference]) -> tuple[TagWanted, ...]:
    """Return the tags that a body names, as the catalog expects them.

    Raises:
        ApiError: 422 if one has neither id nor name.
    """
    tags: list[TagWanted] = []
    for reference in references:
        if reference.id is not msgspec.UNSET:
            tags.append(TagById(reference.id))
        elif reference.name is not msgspec.UNSET:
            tags.append(TagByName(str(reference.name)))
        else:
            raise invalid({"tags": ["Each of the tags must have an id or a name."]})
    return tuple(tags)


def read_countries(references: Sequence[int | str]) -> tuple[Country, ...]:
    """Return the countries that a body names, in its order and without repetitions.

    Raises:
        ApiError: 422 with the first references that are no countries.
    """
    countries: dict[int, Country] = {}
    faults: list[str] = []
    for reference in references:
        country = find_country(reference)
        if country is None:
            faults.append(f"There is no country {str(reference)[:20]!r}.")
        else:
            countries[country.number] = country
    if faults:
        raise invalid({"countries": faults[:50]})
    return tuple(countries.values())


def read_resolutions(numbers: Sequence[int]) -> frozenset[int]:
    """Return the resolutions that a body names.

    Raises:
        ApiError: 422 with every number that is no resolution.
    """
    unknown = sorted(set(numbers) - _RESOLUTIONS)
    if unknown:
        faults = [f"There is no resolution {str(number)[:20]}." for number in unknown]
        raise invalid({"resolutions": faults})
    return frozenset(numbers)
