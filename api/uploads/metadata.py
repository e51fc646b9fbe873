"""Reads the details that a client sends of a video before its file has arrived.

The keys are those of editing a video. Metadata of resumable uploads holds only texts, so what is no
text is JSON there: `category`, `countries`, `tags`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.http.errors import invalid
from api.http.json_body import parse_fields
from api.library.references import read_details
from api.videos.schemas import TEXTS, DetailsBody
from storage.catalog.records.details import VideoDetails

# The number of the video whose file an upload replaces.
REPLACES: Final = "replaces"
NO_DETAILS: Final = (
    "An upload that replaces a file cannot change the video's details; edit the video instead."
)
_NAMES: Final = ("filename", "name")
# Keys that clients add by themselves. The probe determines the type of the file.
_IGNORED: Final = frozenset({*_NAMES, "filetype", "type", "contentType", "relativePath"})


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


def read_metadata_details(metadata: Mapping[str, str]) -> tuple[str, VideoDetails]:
    """Return the file's name ("" if there is none) and the details of the video.

    Raises:
        ApiError: 422 with every key that is wrong or unknown.
    """
    values: dict[str, Any] = {}  # Any: JSON
    faults: dict[str, list[str]] = {}
    for key, text in metadata.items():
        if key in _IGNORED:
            continue
        if key in TEXTS or key not in DetailsBody.__struct_fields__:
            values[key] = text
            continue
        try:
            values[key] = msgspec.json.decode(text) if text else None
        except (msgspec.DecodeError, RecursionError):
            faults[key] = [f"The {key} must be JSON."]
    if faults:
        raise invalid(faults)
    name = next((metadata[key] for key in _NAMES if metadata.get(key)), "")
    return name, read_details(parse_fields(values, DetailsBody), VideoDetails).details
