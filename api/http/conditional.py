"""What a request for an object asks beyond its address: ranges, conditions, compression.

Pure. Source: RFC 9110, sections 8.8.3 (entity tags), 12.5.3 (Accept-Encoding), 13.1 (conditions)
and 14 (ranges). What is malformed is taken as absent, as the RFC has it.
"""

import re
from typing import Final

__all__ = ["Unsatisfiable", "byte_range", "matches", "takes_gzip"]

# One range: more than one is answered with the whole (14.2 allows it), players never ask for more.
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
_CODING: Final = re.compile(r"\s*([^\s;,]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)\s*)?")


class Unsatisfiable(Exception):
    """The range begins after the object's end (416)."""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one after the last, or None for the whole object.

    Raises:
        Unsatisfiable: no byte of the object is in the range.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # the last so many
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


def matches(header: str | None, tag: str) -> bool:
    """Say whether If-None-Match holds the entity tag (with its quotes), compared weakly."""
    if header is None:
        return False
    return header.strip() == "*" or tag in _TAG.findall(header)


def takes_gzip(header: str | None) -> bool:
    """Say whether Accept-Encoding allows gzip."""
    verdicts: dict[str, bool] = {}
    for item in (header or "").split(","):
        match = _CODING.fullmatch(item)
        if match is not None:
            verdicts[match[1].lower()] = float(match[2] or 1) > 0
    return verdicts.get("gzip", verdicts.get("x-gzip", verdicts.get("*", False)))
