"""The shapes of all documented responses, written by hand from the interface's tables.

They are independent of `api.schemas.common`: each lists the keys that a client may rely on, with
types and nullability. `faults` compares a response with a shape, and reports missing keys, unknown
keys and values of another type.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

# A shape is a Kind, Nullable or Labelled, a list of one shape, or an object of shapes by key.
Shape = Any  # Any: it names itself


class ValueKind(msgspec.Struct, frozen=True):
    """A value of exactly these types (true is not a number); texts may have a pattern."""

    name: str
    types: tuple[type, ...]
    form: str = ""


class Nullable(msgspec.Struct, frozen=True):
    """A shape that may also be null."""

    of: Shape


class Labelled(msgspec.Struct, frozen=True):
    """An object with resolution labels as keys and values of one shape."""

    of: ValueKind


def faults(value: object, shape: Shape, at: str = "$") -> list[str]:
    """Return all differences between a value and a shape, each with its path."""
    match shape:
        case Nullable():
            return [] if value is None else faults(value, shape.of, at)
        case ValueKind():
            return _of_kind(value, shape, at)
        case Labelled():
            return _labelled(value, shape, at)
        case list():
            (of,) = cast("list[object]", shape)
            if not isinstance(value, list):
                return [f"{at} is no array: {value!r}"]
            each = enumerate(cast("list[object]", value))
            return [fault for place, row in each for fault in faults(row, of, f"{at}[{place}]")]
        case _:
            return _object(value, cast("Mapping[str, object]", shape), at)


def _of_kind(value: object, kind: ValueKind, at: str) -> list[str]:
    if type(value) not in kind.types:
        return [f"{at} is no {kind.name}: {value!r}"]
    if kind.form and not re.fullmatch(kind.form, str(value), re.DOTALL):
        return [f"{at} has not the form of a {kind.name}: {value!r}"]
    return []


def _labelled(value: object, shape: Labelled, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at} is no object: {value!r}"]
    differences: list[str] = []
    for key, each in cast("dict[str, object]", value).items():
        if not re.fullmatch("[1-9][0-9]*p", key):
            differences.append(f"{at} has a key that is no label: {key}")
        differences += faults(each, shape.of, f"{at}.{key}")
    return differences


def _object(value: object, shape: Mapping[str, object], at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at} is no object: {value!r}"]
    body = cast("dict[str, object]", value)
    differences = [f"{at} lacks {key}" for key in sorted(set(shape) - set(body))]
    differences += [f"{at} has {key} too" for key in sorted(set(body) - set(shape))]
    for key, of in shape.items():
        if key in body:
            differences += faults(body[key], of, f"{at}.{key}")
    return differences


INTEGER: Final = ValueKind("integer", (int,))
NUMBER: Final = ValueKind("number", (int, float))
BOOLEAN: Final = ValueKind("boolean", (bool,))
STRING: Final = ValueKind("string", (str,))
URL: Final = ValueKind("URL", (str,), r"(https?|rtmps?)://[^/?#\s]+/\S*")
STAMP: Final = ValueKind("timestamp", (str,), r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
DURATION: Final = ValueKind("duration", (str,), r"PT(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?")
LABEL: Final = ValueKind("label", (str,), "[1-9][0-9]*p")
HASH: Final = ValueKind("hash", (str,), "[0-9A-Za-z]{12}")
_UUID: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
KEY: Final = ValueKind("hash and uuid", (str,), f"[0-9A-Za-z]{{12}}_{_UUID}")
UUID: Final = ValueKind("uuid", (str,), _UUID)
HTML: Final = ValueKind("HTML", (str,), "<.*>")

ERROR: Final = {"message": STRING}
_FIELD: Final = [STRING]


def refusal_faults(body: object) -> list[str]:
    """Return all differences between a body and that of an error."""
    if not isinstance(body, dict):
        return faults(body, ERROR)
    document = cast("dict[str, dict[str, object]]", body)
    if "errors" not in document:
        return faults(document, ERROR)
    fields = document["errors"]
    shape = {"message": STRING, "errors": dict.fromkeys(fields, _FIELD)}
    return faults(document, shape) or ([] if fields else ["errors names no field"])


# Tags and categories, embedded in records and on their own.
NAMED: Final = {"id": INTEGER, "name": STRING}
LABELLED: Final = {"id": INTEGER, "name": STRING, "active": BOOLEAN}
COUNTRY_ITEM: Final = {"id": INTEGER, "name": STRING}
COUNTRY: Final = {"id": INTEGER, "code": ValueKind("code", (str,), "[A-Z]{2}"), "name": STRING}
EMBED: Final = {"iframe": HTML, "script": HTML, "link": URL}
POSTERS: Final = Labelled(URL)
_PLAYER: Final = Nullable(NAMED)  # a reference: its fields are embedded on purpose

VIDEO: Final[dict[str, Shape]] = {
    "id": INTEGER,
    "hash": HASH,
    "title": STRING,
    "description": STRING,
    "name": STRING,
    "size": INTEGER,
    "length": NUMBER,
    "iso8601_duration": DURATION,
    "width": INTEGER,
    "height": INTEGER,
    "video": URL,
    "uploading": BOOLEAN,
    "uploaded_at": STAMP,
    "transcoding_progress": INTEGER,
    "transcoding_at": Nullable(STAMP),
    "transcoding_eta": INTEGER,
    "completed": BOOLEAN,
    "completed_at": Nullable(STAMP),
    "created_at": STAMP,
    "updated_at": STAMP,
    "published": BOOLEAN,
    "published_at": Nullable(STAMP),
    "published_url": URL,
    "category": Nullable(NAMED),
    "countries": [COUNTRY],
    "player": _PLAYER,
    "resolutions": [{"id": INTEGER, "name": LABEL, "width": INTEGER, "height": INTEGER}],
    "tags": [NAMED],
    "image_urls": POSTERS,
    "image_update_at": Nullable(STAMP),
    "embed": EMBED,
    "project_json": URL,
    "video_json": URL,
    "storage_size": INTEGER,
}
VIDEO_ITEM: Final = {
    key: shape
    for key, shape in VIDEO.items()
    if key not in ("category", "countries", "player", "resolutions", "tags")
}
VIDEO_UPLOADED: Final = {key: shape for key, shape in VIDEO.items() if key != "embed"}
VIDEO_SHOWN: Final[dict[str, Shape]] = {
    **{
        key: VIDEO[key]
        for key in (
            "id", "hash", "title", "description", "name", "size", "length", "iso8601_duration",
            "width", "height", "video", "uploaded_at", "completed", "completed_at", "created_at",
            "updated_at", "published", "published_at", "tags", "category", "countries",
            "image_urls", "embed", "project_json", "video_json",
        )
    },
    "media_resource": STRING,
    "image": URL,
    "resolutions": [
        {
            "resolution": LABEL,
            "resolution_id": INTEGER,
            "transcoded": INTEGER,
            "vertical_value": INTEGER,
            "horizontal_value": INTEGER,
            "size": INTEGER,
            "transcode_duration": INTEGER,
        }
    ],
}  # fmt: skip

STREAM: Final[dict[str, Shape]] = {
    "id": INTEGER,
    "hash": HASH,
    "title": STRING,
    "description": STRING,
    "application": STRING,
    "stream": KEY,
    "published": BOOLEAN,
    "resolutions": [{"id": INTEGER, "name": LABEL, "active": BOOLEAN}],
    "tags": [NAMED],
    "category": Nullable(NAMED),
    "countries": [COUNTRY],
    "rtmps_url": URL,
    "rtmp_url": URL,
    "stream_url": URL,
    "published_url": URL,
    "live": BOOLEAN,
    "live_channel": STRING,
    "live_event": STRING,
    "receiving_count": INTEGER,
    "processing": BOOLEAN,
    "paused": BOOLEAN,
    "web_socket_broadcaster": STRING,
    "web_socket_key": STRING,
    "web_socket_cluster": STRING,
    "image_urls": Nullable(POSTERS),
    "embed": EMBED,
    "player": _PLAYER,
    "backups": [
        {
            "id": INTEGER,
            "name": STRING,
            "rtmps_url": URL,
            "rtmp_url": URL,
            "publish": BOOLEAN,
            "live": BOOLEAN,
        }
    ],
    "no_audio_stream": BOOLEAN,
}
STREAM_ITEM: Final = {
    **{
        key: shape
        for key, shape in STREAM.items()
        if key
        not in (
            "published_url", "receiving_count", "processing", "paused", "backups",
            "no_audio_stream",
        )
    },
    "stream": UUID,
}  # fmt: skip

# The complete response of each operation.
SHOW_VIDEO: Final = {"data": VIDEO_SHOWN}
EDIT_VIDEO: Final = {"message": STRING, "video": VIDEO}
UPLOAD_VIDEO: Final = {
    "message": STRING,
    "video": VIDEO_UPLOADED,
    "web_socket_broadcaster": STRING,
    "web_socket_key": STRING,
    "web_socket_cluster": STRING,
}
CHANGE_STREAM: Final = {"message": STRING, "stream": STREAM}
EDIT_TAG: Final = {"message": STRING, "tag": LABELLED}
LIST_COUNTRIES: Final = {"data": [COUNTRY_ITEM]}


def listing(item: Shape) -> dict[str, Shape]:
    """Return the envelope of a page of items of this shape.

    `from` and `to` are null on an empty page, on purpose.
    """
    return {
        "data": [item],
        "links": {"first": URL, "last": URL, "prev": Nullable(URL), "next": Nullable(URL)},
        "meta": {
            "current_page": INTEGER,
            "from": Nullable(INTEGER),
            "last_page": INTEGER,
            "per_page": INTEGER,
            "to": Nullable(INTEGER),
            "total": INTEGER,
            "path": ValueKind("URL without query", (str,), r"https?://[^?#\s]+"),
            "links": [{"url": Nullable(URL), "label": STRING, "active": BOOLEAN}],
        },
    }


LIST_VIDEOS: Final = listing(VIDEO_ITEM)
LIST_STREAMS: Final = listing(STREAM_ITEM)
LIST_LABELS: Final = listing(LABELLED)
