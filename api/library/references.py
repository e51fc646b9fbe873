"""What bodies say of streams and videos, and how they refer to tags, countries, resolutions."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec

from api.http.errors import invalid
from api.schemas.text_fields import Name, OptionalTitle, TextField
from media.countries import find_country
from media.ladder import SELECTABLE_BOXES
from storage.catalog.records.details import D, Edit

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


def wanted_tags(references: Sequence[TagReference]) -> tuple[int | str, ...]:
    """Return the tags that a body names, by their numbers or names.

    Raises:
        ApiError: 422 if one has neither id nor name.
    """
    tags: list[int | str] = []
    for reference in references:
        if reference.id is not msgspec.UNSET:
            tags.append(reference.id)
        elif reference.name is not msgspec.UNSET:
            tags.append(str(reference.name))
        else:
            raise invalid({"tags": ["Each of the tags must have an id or a name."]})
    return tuple(tags)


def read_countries(references: Sequence[int | str]) -> tuple[int, ...]:
    """Return the numbers of the countries that a body names, in its order, each once.

    Raises:
        ApiError: 422 with the first references that are no countries.
    """
    countries: dict[int, None] = {}
    faults: list[str] = []
    for reference in references:
        country = find_country(reference)
        if country is None:
            faults.append(f"There is no country {str(reference)[:20]!r}.")
        else:
            countries[country.number] = None
    if faults:
        raise invalid({"countries": faults[:50]})
    return tuple(countries)


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


_READERS: Final[dict[str, Callable[[Any], object]]] = {  # Any: lists of every type
    "countries": read_countries,
    "tags": wanted_tags,
    "resolutions": read_resolutions,
}


def read_details(body: msgspec.Struct, details: type[D]) -> Edit[D]:
    """Return what a body says of a record, as the catalog takes it; UNSET says nothing.

    Null stands for no title, and for the empty list.

    Raises:
        ApiError: 422 for an unknown country or resolution, or a tag with neither id nor name.
    """
    values: dict[str, object] = {}
    for key in details.__struct_fields__:
        value = getattr(body, key)
        if value is msgspec.UNSET:
            continue
        if isinstance(value, TextField):
            values[key] = str(value) or (None if isinstance(value, OptionalTitle) else "")
        else:
            values[key] = _READERS[key](value or ()) if key in _READERS else value
    return details.edit(**values)
