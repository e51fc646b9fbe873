"""Edits that are refused if the record was edited meanwhile (`If-Match`).

The entity tag of a record is a digest of what an edit may change, and of nothing else: a stream's
tag stays the same when it goes live. Source: RFC 9110, sections 8.8.3 and 13.1.1.
"""

import hashlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

import msgspec
from litestar import Response
from litestar.params import HeaderParameter

from api.http.conditional import has_entity_tag
from api.http.errors import ApiError

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


def edit_tag(*values: object) -> str:
    """Return the tag of a record whose editable values these are, without quotes."""
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()[:_DIGITS]


def quoted(tag: str) -> str:
    """Return a tag with the quotes that it has in a header."""
    return f'"{tag}"'


def tagged(body: B, tag: str) -> Response[B]:
    """Return the answer with a record whose tag this is."""
    return Response(body, headers={"ETag": quoted(tag)})


def unless_edited(if_match: str | None, tag_of: Callable[[R], str]) -> Callable[[R], None] | None:
    """Return the check of an edit with this `If-Match` header; None without the header.

    The check takes the record as it is before the edit, and raises `ApiError` (412) if the header
    names another version of it. A tag that a proxy weakened (nginx does so when it compresses)
    counts like the strong one, though RFC 9110, 13.1.1 would refuse it.
    """
    if if_match is None:
        return None

    def check(record: R) -> None:
        if not has_entity_tag(if_match, quoted(tag_of(record))):
            message = "The record was edited meanwhile: read it again, then edit it."
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, message)

    return check
