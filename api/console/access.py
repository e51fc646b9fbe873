"""Admits browsers to pages: a guard that requires a session, and where to sign in otherwise."""

import re
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.http.auth import Guard
from api.http.browser_sessions import BrowserSessions
from api.http.caller_limits import CallerRateLimiter
from api.http.errors import ApiError
from api.schemas.urls import SIGN_IN

HOME: Final = "/console"
# No second slash, no backslash and no control character: browsers read those in several ways.
_BELOW: Final = re.compile(r"/console(?:[/?][!-\[\]-~]*)?")
_LONGEST: Final = 1000


def needs_session(sessions: BrowserSessions, callers: CallerRateLimiter) -> Guard:
    """Return a guard that requires a signed-in browser and sets `request.auth` to its principal.

    A request without a session gets 401, which is shown as the page to sign in, however many there
    are: a browser whose session has ended sends its cookie on.
    """

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        principal = await sessions.find(connection.headers)
        if principal is None:
            raise ApiError(HTTPStatus.UNAUTHORIZED, "Sign in to see this page.")
        connection.scope["auth"] = principal
        callers.count(principal.id)

    return guard


def is_console(path: str) -> bool:
    """Return True if a path is a page of the console."""
    return path == HOME or path.startswith(f"{HOME}/")


def next_page(text: str | None) -> str:
    """Return where a browser goes once it is signed in: `text` if it is a page of the console."""
    fits = text is not None and len(text) <= _LONGEST and _BELOW.fullmatch(text)
    return text if fits and text is not None and not text.startswith(SIGN_IN) else HOME


def sign_in_path(path: str, query: str) -> str:
    """Return the path of the page to sign in, from which a browser comes back to this one."""
    page = next_page(f"{path}?{query}" if query else path)
    return SIGN_IN if page == HOME else f"{SIGN_IN}?next={quote(page, safe='')}"
