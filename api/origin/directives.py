"""The queries of live playlists: delivery directives, and the choice of normal latency.

Pure. Source: draft-pantos-hls-rfc8216bis, 6.2.5. Other keys are ignored.
"""

import re
from typing import Final

import msgspec

_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_MAX_QUERY: Final = 2048  # characters; a proxy may add its own keys


class BadDirective(ValueError):
    """A query has invalid directives."""


class Directives(msgspec.Struct, frozen=True):
    """The delivery directives of a playlist request.

    `msn` and `part` are the segment and part to wait for (`_HLS_msn`, `_HLS_part`), None if the
    request is not blocking. `skip` requests a delta update (`_HLS_skip`). Without `low_latency`,
    the playlist has no low-latency tags.
    """

    msn: int | None = None
    part: int | None = None
    skip: bool = False
    low_latency: bool = True


_NONE: Final = Directives()


def parse_directives(query: str) -> Directives:
    """Parse the query of a playlist's URL, without its question mark.

    Raises:
        BadDirective: a directive has an invalid value, or `_HLS_part` is used without `_HLS_msn`.
    """
    if not query:
        return _NONE
    if len(query) > _MAX_QUERY:
        raise BadDirective(f"a query of {len(query)} characters")
    values = {key: value for key, _, value in (pair.partition("=") for pair in query.split("&"))}
    msn, part = _number(values, "_HLS_msn"), _number(values, "_HLS_part")
    if part is not None and msn is None:
        raise BadDirective("_HLS_part without _HLS_msn")
    skip = values.get("_HLS_skip")
    if skip not in {None, "YES", "v2"}:
        raise BadDirective("_HLS_skip is neither YES nor v2")
    return Directives(
        msn=msn,
        part=part,
        skip=skip is not None,
        low_latency=values.get("latency") != "normal",
    )


def _number(values: dict[str, str], key: str) -> int | None:
    text = values.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise BadDirective(f"{key} is not a number")
    return int(text)
