"""The answers of the origin to requests for what it does not serve, or not now."""

from typing import Final

from api.http.response import METHODS, HttpResponse, cross_origin_response
from api.origin.directives import BadDirective

_UNCACHED: Final = "no-store"
_TEXT: Final = {"content-type": "text/plain"}

# Never cached: the stream may start at any moment.
NOT_FOUND: Final = cross_origin_response(404, {**_TEXT, "cache-control": _UNCACHED}, b"not found\n")
NOT_ALLOWED: Final = cross_origin_response(405, {"allow": METHODS, "cache-control": _UNCACHED})
BLOCKED: Final = cross_origin_response(
    451, {**_TEXT, "cache-control": "private, no-store"}, b"not available in your country\n"
)
FAILED: Final = cross_origin_response(500, {"cache-control": _UNCACHED})
TRY_AGAIN: Final = cross_origin_response(503, {"retry-after": "1", "cache-control": _UNCACHED})
"""To a request that cannot be served now, or not in time (RFC 8216bis, 6.2.5.2)."""


def bad_request(error: BadDirective) -> HttpResponse:
    """Return the answer to a target whose query asks for something impossible."""
    return cross_origin_response(400, {**_TEXT, "cache-control": _UNCACHED}, f"{error}\n".encode())
