"""Responds with a page of the console, or with one fragment of it that the page requests again.

A fragment is an element with an id and a template of its own (`_name.html`), which the page's
template includes. A page's script gets it from the page's own address, with the headers
`HX-Request` and `HX-Target` of htmx.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.enums import MediaType

from api.console.rendering import Renderer
from api.schemas.urls import Addresses
from media.run_policy import DEFAULTS, ResolvedPolicy
from storage.catalog.records.common import Principal

_NO_FRAGMENTS: Final[Mapping[str, str]] = {}
_ACCEPTED: Final = "HX-Request, HX-Target"


class Console:
    """The console of a service: its templates, and the headers of its pages.

    For `end_holds_seconds` after an end, and after each attempt, encoders are refused. `policy` is
    what runs do where neither their stream nor its project has a setting.
    """

    def __init__(
        self,
        renderer: Renderer,
        addresses: Addresses,
        end_holds_seconds: float = 0.0,
        policy: ResolvedPolicy = DEFAULTS,
    ) -> None:
        self.renderer = renderer
        self.end_holds_seconds = end_holds_seconds
        self.policy = policy
        self._headers = page_headers(addresses)

    def page(
        self,
        request: Request[Any, Any, Any],  # Any: of no use to us
        template: str,
        *,
        fragments: Mapping[str, str] = _NO_FRAGMENTS,
        status: int = HTTPStatus.OK,
        **values: object,
    ) -> Response[str]:
        """Return a page, or the fragment that the request names.

        `fragments` are templates by the ids of their elements. Templates get the `values`, and
        `caller`: the principal, None without a session; `path`: that of the page.
        """
        # Not set for pages that need no session.
        caller = cast("Mapping[str, object]", request.scope).get("auth")
        target = request.headers.get("hx-target", "") if is_fragment_request(request) else ""
        whole = {
            **values,
            "caller": caller if isinstance(caller, Principal) else None,
            "path": request.scope["path"],
        }
        text = self.renderer.render(fragments.get(target, template), whole)
        return Response(
            text, status_code=status, media_type=MediaType.HTML, headers={**self._headers}
        )

    def redirect(self, path: str) -> Response[str]:
        """Return a redirect (303) to a path of this service."""
        headers = {**self._headers, "Location": self.renderer.url(path)}
        status = HTTPStatus.SEE_OTHER
        return Response("", status_code=status, media_type=MediaType.HTML, headers=headers)


GivenConsole = NamedDependency[Console]  # of a handler


def is_fragment_request(request: Request[Any, Any, Any]) -> bool:  # Any: of no use to us
    """Return True if a page's script requests a fragment, not a browser a whole page."""
    return request.headers.get("hx-request") == "true"


def page_headers(addresses: Addresses) -> dict[str, str]:
    """Return the headers of all pages: only our own files, no framing, no caching."""
    playback = _origin(addresses.playback)
    elsewhere = "" if playback == _origin(addresses.http) else f" {playback}"
    host = urlsplit(addresses.http).netloc
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        # The style sheet's own symbols are data; previews of files to upload are blobs.
        "img-src": f"'self' data: blob:{elsewhere}",
        "media-src": f"'self' blob:{elsewhere}",
        # Older browsers do not count web-sockets as their own host's.
        "connect-src": f"'self' ws://{host} wss://{host}",
        "frame-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{key} {text}" for key, text in policy.items()),
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "same-origin",
        "Vary": _ACCEPTED,
        "X-Content-Type-Options": "nosniff",
    }


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
