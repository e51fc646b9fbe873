"""What the origin answers, as values: status, headers, and the bytes or the file that follow.

Pure but for closing a file. Who sends an answer needs to know nothing of media; who makes one
needs no connection. Source: RFC 9110, sections 13 (conditions), 14 (ranges) and 15 (status codes).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from api.http.conditional import Unsatisfiable, byte_range, matches
from api.http.open_file import OpenFile

__all__ = ["METHODS", "Answer", "Asked", "Headers", "Held", "answer", "described", "plain"]

METHODS: Final = "GET, HEAD, OPTIONS"

# Names in lower case, as they go over the wire.
Headers = tuple[tuple[bytes, bytes], ...]


class Asked(msgspec.Struct, frozen=True):
    """A request; header names in lower case."""

    method: str
    headers: Mapping[str, str]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """An object as it can be sent: bytes or a file, the headers that describe it, and its tag."""

    body: bytes | OpenFile
    headers: Headers
    tag: str | None = None

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.body) if isinstance(self.body, bytes) else self.body.size


class Answer(msgspec.Struct, frozen=True):
    """An answer; `headers` are all but those of the connection and its time.

    With a `file`, its bytes from `start` to before `stop` follow in place of `body`, and who sends
    the answer closes it.
    """

    status: int
    headers: Headers
    body: bytes = b""
    file: OpenFile | None = None
    start: int = 0
    stop: int = 0

    def close(self) -> None:
        """Let go of the file, where there is one."""
        if self.file is not None:
            self.file.close()


def _pairs(headers: Mapping[str, str]) -> Headers:
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


_CROSS_ORIGIN: Final = _pairs(
    {
        "access-control-allow-origin": "*",
        "access-control-expose-headers": (
            "Content-Length, Content-Range, Content-Encoding, ETag, Date"
        ),
        "cross-origin-resource-policy": "cross-origin",
        "timing-allow-origin": "*",
        "x-content-type-options": "nosniff",
    }
)
_ACCEPT_RANGES: Final = (b"accept-ranges", b"bytes")


def described(kind: str, cache: str, more: Mapping[str, str]) -> Headers:
    """Return the headers of an object: its media type, how long it may be kept, and `more`."""
    own = _pairs({**more, "content-type": kind, "cache-control": cache})
    return (*_CROSS_ORIGIN, *own, _ACCEPT_RANGES)


def plain(status: int, headers: Mapping[str, str], body: bytes = b"") -> Answer:
    """Return an answer that shows no object; 204 has no body and no length."""
    length = {} if status == 204 else {"content-length": str(len(body))}
    return Answer(status, (*_CROSS_ORIGIN, *_pairs({**headers, **length})), body)


def answer(asked: Asked, held: Held) -> Answer:
    """Answer with an object, a range of it, or word that the asker has it already.

    The object's file goes with the answer, or is closed where nothing of it is sent.
    """
    found = _answer(asked, held)
    if isinstance(held.body, OpenFile) and found.file is None:
        held.body.close()
    return found


def _answer(asked: Asked, held: Held) -> Answer:
    headers = held.headers
    if held.tag is not None:
        headers = (*headers, (b"etag", held.tag.encode()))
        if matches(asked.headers.get("if-none-match"), held.tag):
            return Answer(304, headers)
    start, stop, status = 0, held.size, 200
    # If-Range: the rest of an older object must not be put behind its beginning (RFC 9110, 13.1.5).
    if "range" in asked.headers and asked.headers.get("if-range", held.tag) == held.tag:
        try:
            found = byte_range(asked.headers["range"], held.size)
        except Unsatisfiable:
            return plain(
                416, {"content-range": f"bytes */{held.size}", "cache-control": "no-store"}
            )
        if found is not None:
            start, stop = found
            status = 206
            headers = (
                *headers,
                (b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, held.size)),
            )
    headers = (*headers, (b"content-length", b"%d" % (stop - start)))
    if asked.method == "HEAD":
        return Answer(status, headers)
    if isinstance(held.body, OpenFile):
        return Answer(status, headers, b"", held.body, start, stop)
    return Answer(status, headers, held.body[start:stop])
