"""The stream of a path, where the caller may know of it; what operations on one have in common."""

from http import HTTPStatus
from typing import Any, Final

from litestar import Request

from api.http.errors import documented
from api.http.parameters import missing, number_of
from storage.catalog import Catalog
from storage.catalog.records.common import Principal, StreamRecord

__all__ = ["CHANGES", "LOOKS", "STREAM", "WRITES", "Call", "found", "stream_of"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application

STREAM: Final = "/streams/{stream_id:str}"
_NOUN: Final = "stream"

_LOOKS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND)
_CHANGES: Final = (*_LOOKS, HTTPStatus.FORBIDDEN)
_BODIES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
LOOKS: Final = documented(*_LOOKS)  # what a look at a stream may be refused with
CHANGES: Final = documented(*_CHANGES)  # the same of a change without a body
WRITES: Final = documented(*_CHANGES, *_BODIES)  # and of one with a body


async def stream_of(catalog: Catalog, caller: Principal, text: str) -> StreamRecord:
    """Return the stream of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    record = await catalog.streams.find(number_of(text, _NOUN))
    if record is None or not caller.reaches(record.project):
        raise missing(_NOUN)
    return record


def found(record: StreamRecord | None) -> StreamRecord:
    """Return a record that was there a moment ago.

    Raises:
        ApiError: 404 where it was deleted meanwhile.
    """
    if record is None:
        raise missing(_NOUN)
    return record
