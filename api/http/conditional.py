"""Conditional requests, ranges and compression: what request headers ask for.

Malformed headers count as absent, as the RFC demands. An edit can be refused if the record was
edited meanwhile (`If-Match`): the entity tag of a record is a digest of what an edit may change,
and of nothing else, so that a stream's tag stays the same when it goes live. Pure. Source:
RFC 9110, sections 8.8.3 (entity tags), 12.5.3 (Accept-Encoding), 13.1 (conditions) and 14 (ranges).
"""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

import msgspec
from litestar import Response
from litestar.params import HeaderParameter

from api.http.errors import ApiError

# A single range: several are answered with the whole object (14.2 allows it), and players never
# request more than one.
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
_CODING: Final = re.compile(r"\s*([^\s;,]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")
_DIGITS: Final = 16  # 64 bits: enough to distinguish the versions of one record

IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description="The `ETag` of the version that is to be edited; 412 if there is another.",
        schema_extra={"type": "string", "one_of": None},
    ),
]

R = TypeVar("R")
B = TypeVar("B")


class Unsatisfiable(Exception):
    """The range begins after the end of the object (416)."""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the start and the stop (exclusive) of a range in bytes; None for the whole object.

    `size` is that of the object, in bytes.

    Raises:
        Unsatisfiable: the range contains no byte of the object.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # a suffix: the last N bytes
        length = int(match[2])
        if not length or not size:
            raise Unsatisfiable
        return max(0, size - length), size
    start = int(match[1])
    if match[2] and int(match[2]) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return start, min(int(match[2]) + 1, size) if match[2] else size


def has_entity_tag(header: str | None, tag: str) -> bool:
    """Return True if If-None-Match lists the tag (with its quotes), by weak comparison."""
    if header is None:
        return False
    return header.strip() == "*" or tag in _TAG.findall(header)


@lru_cache(maxsize=64)  # browsers send a handful of different ones, with each request
def accepts_gzip(header: str | None) -> bool:
    """Return True if Accept-Encoding allows gzip."""
    accepted: dict[str, bool] = {}
    for item in (header or "").split(","):
        match = _CODING.fullmatch(item)
        if match is not None:
            accepted[match[1].lower()] = float(match[2] or 1) > 0
    return accepted.get("gzip", accepted.get("x-gzip", accepted.get("*", False)))


# -- edits ----------------------------------------------------------------------------------------


def edit_tag(*values: object) -> str:
    """Return the tag of a record whose editable values these are, without quotes."""
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()[:_DIGITS]


def tagged(body: B, tag: str) -> Response[B]:
    """Return the answer with a record whose tag this is."""
    return Response(body, headers={"ETag": f'"{tag}"'})


def unless_edited(if_match: str | None, tag_of: Callable[[R], str]) -> Callable[[R], None] | None:
    """Return the check of an edit with this `If-Match` header; None without the header.

    The check takes the record as it is before the edit, and raises `ApiError` (412) if the header
    names another version of it. A tag that a proxy weakened (nginx does so when it compresses)
    counts like the strong one, though RFC 9110, 13.1.1 would refuse it.
    """
    if if_match is None:
        return None

    def check(record: R) -> None:
        if not has_entity_tag(if_match, f'"{tag_of(record)}"'):
            message = "The record was edited meanwhile: read it again, then edit it."
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, message)

    return check
