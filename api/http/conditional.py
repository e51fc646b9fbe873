"""Parses the request headers for ranges, conditions and compression.

Pure. Malformed headers count as absent, as the RFC demands. Source: RFC 9110, sections 8.8.3
(entity tags), 12.5.3 (Accept-Encoding), 13.1 (conditions) and 14 (ranges).
"""

import re
from functools import lru_cache
from typing import Final

# A single range: several are answered with the whole object (14.2 allows it), and players never
# request more than one.
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
_CODING: Final = re.compile(r"\s*([^\s;,]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")


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
