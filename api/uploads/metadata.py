"""Reads the details that a client sends of a video before its file has arrived.

The keys are those of editing a video. Metadata of resumable uploads holds only texts, so
`category`, `countries` and `tags` are JSON there.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.http.errors import invalid
from api.http.json_body import parse_fields
from api.library.references import CountryReferences, TagReferences, read_countries, wanted_tags
from api.schemas.text_fields import Description, OptionalTitle
from storage.catalog.library.labels import TagById
from storage.catalog.records.uploads import UploadDetails

# The number of the video whose file an upload replaces.
REPLACES: Final = "replaces"
NO_DETAILS: Final = (
    "An upload that replaces a file cannot change the video's details; edit the video instead."
)
_NAMES: Final = ("filename", "name")
# Keys that clients add by themselves. The probe determines the type of the file.
_IGNORED: Final = frozenset({*_NAMES, "filetype", "type", "contentType", "relativePath"})
_JSON: Final = ("category", "countries", "tags")


class VideoDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details of a video; a title of "" stands for the file's name."""

    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | None = None
    countries: CountryReferences | None = None
    tags: TagReferences | None = None


def wanted_details(details: VideoDetails) -> UploadDetails:
    """Return the details as the catalog expects them.

    Raises:
        ApiError: 422 for an unknown country, or a tag with neither id nor name.
    """
    tags = wanted_tags(details.tags or [])
    return UploadDetails(
        title=None if details.title is msgspec.UNSET else str(details.title) or None,
        description="" if details.description is msgspec.UNSET else str(details.description),
        category=details.category,
        countries=tuple(each.number for each in read_countries(details.countries or [])),
        tags=tuple(tag.id if isinstance(tag, TagById) else tag.name for tag in tags),
    )


def read_replaced(metadata: Mapping[str, str], *, replacing: bool = False) -> str | None:
    """Return the unchecked number of the video whose file is replaced; None if there is none.

    `replacing`: the upload replaces a file even without that key in the metadata.

    Raises:
        ApiError: 422 if the metadata of a replacement holds details of the video.
    """
    replaced = metadata.get(REPLACES)
    if replaced is None and not replacing:
        return None
    details = [key for key in metadata if key != REPLACES and key not in _IGNORED]
    if details:
        raise invalid({key: [NO_DETAILS] for key in details})
    return replaced


def read_details(metadata: Mapping[str, str]) -> tuple[str, UploadDetails]:
    """Return the file's name ("" if there is none) and the details of the video.

    Raises:
        ApiError: 422 with every key that is wrong or unknown.
    """
    values: dict[str, Any] = {}  # Any: JSON
    faults: dict[str, list[str]] = {}
    for key, text in metadata.items():
        if key in _IGNORED:
            continue
        if key not in _JSON:
            values[key] = text
            continue
        try:
            values[key] = msgspec.json.decode(text) if text else None
        except (msgspec.DecodeError, RecursionError):
            faults[key] = [f"The {key} must be JSON."]
    if faults:
        raise invalid(faults)
    name = next((metadata[key] for key in _NAMES if metadata.get(key)), "")
    return name, wanted_details(parse_fields(values, VideoDetails))
