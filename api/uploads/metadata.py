"""What is said of a video before its file is there: in an upload's metadata, in a link's body.

The keys are those that edit a video. In metadata, which knows texts alone, what is no text there is
JSON: `category`, `countries` and `tags`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.http.errors import invalid
from api.http.json_body import parse_fields
from api.library.countries import CountryReferences, read_countries
from api.library.labels import TagReferences, wanted_tags
from api.schemas.text_fields import Description, OptionalTitle
from storage.catalog.library.labels import TagById
from storage.catalog.records.uploads import Wanted

__all__ = ["NOT_SAID", "REPLACES", "Words", "read_replaced", "read_words", "wanted_of"]

# The number of the video whose file an upload replaces.
REPLACES: Final = "replaces"
NOT_SAID: Final = "What replaces a file says nothing else of the video: edit that apart."
_NAMES: Final = ("filename", "name")
# What clients say of a file by themselves; what it is shows in the file.
_IGNORED: Final = frozenset({*_NAMES, "filetype", "type", "contentType", "relativePath"})
_JSON: Final = ("category", "countries", "tags")


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said; a title of "" is the file's name."""

    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | None = None
    countries: CountryReferences | None = None
    tags: TagReferences | None = None


def wanted_of(words: Words) -> Wanted:
    """Return what is said as the catalog takes it.

    Raises:
        ApiError: 422 for a country that there is not, or a tag without number and name.
    """
    tags = wanted_tags(words.tags or [])
    return Wanted(
        title=None if words.title is msgspec.UNSET else str(words.title) or None,
        description="" if words.description is msgspec.UNSET else str(words.description),
        category=words.category,
        countries=tuple(each.number for each in read_countries(words.countries or [])),
        tags=tuple(tag.id if isinstance(tag, TagById) else tag.name for tag in tags),
    )


def read_replaced(metadata: Mapping[str, str], *, replacing: bool = False) -> str | None:
    """Return what names the video whose file is replaced, unread; None where nothing does.

    `replacing`: a file is replaced whatever is named here.

    Raises:
        ApiError: 422 where more is said of a video whose file is replaced.
    """
    named = metadata.get(REPLACES)
    if named is None and not replacing:
        return None
    said = [key for key in metadata if key != REPLACES and key not in _IGNORED]
    if said:
        raise invalid({key: [NOT_SAID] for key in said})
    return named


def read_words(metadata: Mapping[str, str]) -> tuple[str, Wanted]:
    """Return the file's name ("" where there is none) and what is said of the video.

    Raises:
        ApiError: 422 with every key that is wrong or unknown.
    """
    sent: dict[str, Any] = {}  # Any: JSON
    faults: dict[str, list[str]] = {}
    for key, text in metadata.items():
        if key in _IGNORED:
            continue
        if key not in _JSON:
            sent[key] = text
            continue
        try:
            sent[key] = msgspec.json.decode(text) if text else None
        except (msgspec.DecodeError, RecursionError):
            faults[key] = [f"The {key} must be JSON."]
    if faults:
        raise invalid(faults)
    name = next((metadata[key] for key in _NAMES if metadata.get(key)), "")
    return name, wanted_of(parse_fields(sent, Words))
