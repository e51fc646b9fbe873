"""Who asks for something that a stream or video shows."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from api.http.browser_sessions import is_from_elsewhere
from api.http.client_address import RawHeaders, header_values


class Viewer(msgspec.Struct, frozen=True):
    """The address of the connection's peer, and all headers of the request.

    `proof` is what in the target of the request proves a right to see it: nothing does yet.
    """

    peer: str | None
    headers: RawHeaders
    proof: None = None

    @classmethod
    def from_scope(cls, scope: Mapping[str, Any]) -> "Viewer":  # Any: ASGI's own map
        """Return the viewer who sends an HTTP request."""
        client = scope.get("client")
        return cls(str(client[0]) if client else None, scope["headers"])

    @property
    def authorization(self) -> str | None:
        """The `Authorization` header, if any; of several the last one."""
        values = header_values(self.headers, b"authorization")
        return values[-1] if values else None

    @property
    def cookie(self) -> str | None:
        """The cookies of the request, if any, as one header; None of a page of another origin.

        Such a page could not read the answer, but would see its size and play it.
        """
        if any(map(is_from_elsewhere, header_values(self.headers, b"sec-fetch-site"))):
            return None
        # HTTP/2 may split them (RFC 9113, 8.2.3).
        return "; ".join(header_values(self.headers, b"cookie")) or None


NOBODY: Final = Viewer(None, ())
"""In place of a viewer whose access is decided already: headers take 2 KB."""
