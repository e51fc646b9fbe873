"""A response of a server, and the directives of its URL."""

import functools
import gzip
import zlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

_MOST_KEPT: Final = 1 << 14  # addresses: each version of a playlist has most of those before it


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """A GET and its response: the seconds of its begin and end, header names in lower case.

    `body` is as received, so possibly compressed.
    """

    url: str
    began: float
    ended: float
    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""

    @property
    def is_gzip(self) -> bool:
        """True if the body is compressed."""
        return self.headers.get("content-encoding") == "gzip"

    @property
    def content(self) -> bytes | None:
        """The decompressed body; None if it cannot be decompressed."""
        if not self.is_gzip:
            return self.body
        try:
            return gzip.decompress(self.body)
        except (OSError, EOFError, zlib.error):
            return None


class RequestedDirectives(msgspec.Struct, frozen=True):
    """The numeric delivery directives of a request (6.2.5)."""

    msn: int | None = None
    part: int | None = None
    skip: bool = False

    @property
    def blocks(self) -> bool:
        """True if it is a blocking request."""
        return self.msn is not None


@functools.lru_cache(_MOST_KEPT)
def joined(url: str, uri: str) -> str:
    """Return the address that a URI means in a playlist."""
    return urljoin(url, uri)


@functools.lru_cache(_MOST_KEPT)
def address_of(url: str) -> str:
    """Return a URL without delivery directives."""
    parts = urlsplit(url)
    query = [(n, v) for n, v in parse_qsl(parts.query) if not n.startswith("_HLS_")]
    return urlunsplit(parts._replace(query=urlencode(query)))


@functools.lru_cache(_MOST_KEPT)
def directives_of(url: str) -> RequestedDirectives:
    """Return the delivery directives of a URL."""
    query = dict(parse_qsl(urlsplit(url).query))
    msn, part = query.get("_HLS_msn", ""), query.get("_HLS_part", "")
    return RequestedDirectives(
        int(msn) if msn.isdecimal() else None,
        int(part) if part.isdecimal() else None,
        query.get("_HLS_skip") in {"YES", "v2"},
    )
