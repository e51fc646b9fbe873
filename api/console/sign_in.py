"""Signs browsers in, by a token or by a link that works once, and out again.

A link's secret stands behind the `#` of its address, which no server sees; the page's script puts
it into the form. The page only offers to sign in, so that programs that open addresses ahead of
people do not use the link up. Wrong tokens and links count as refused tokens do elsewhere; a valid
token signs in a limited number of times a minute.
"""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from api.console.access import next_page
from api.console.page import Console
from api.http.browser_sessions import BrowserSessions, is_same_origin
from api.http.caller_limits import CallerRateLimiter
from api.http.errors import ApiError
from api.http.json_body import read_raw_body
from api.schemas.urls import SIGN_IN
from storage.catalog import Catalog
from storage.errors import TokenRevoked

security = logging.getLogger("security")

SIGN_OUT: Final = "/console/sign-out"
_MAX_BODY: Final = 4096  # a token, a link and a path
_MAX_FIELDS: Final = 10
_MAX_SECRET: Final = 512  # ours have 51 characters; far longer ones are not looked up
_INVALID_FORM: Final = "The form was not understood."

Next = Annotated[str | None, QueryParameter(name="next")]
By = Annotated[str | None, QueryParameter(name="by")]


def sign_in_handlers(
    catalog: Catalog,
    console: Console,
    sessions: BrowserSessions,
    callers: CallerRateLimiter,
    clock_us: Callable[[], int],
) -> list[HTTPRouteHandler]:
    """Return the handlers of the pages to sign in and out, which need no session."""

    @get(SIGN_IN)
    async def show_sign_in(
        request: Request[Any, Any, Any], next_: Next = None, by: By = None
    ) -> Response[str]:
        """Show the form; redirect a browser that is signed in already, unless it has a link."""
        destination, by_link = next_page(next_), by == "link"
        if not by_link and await sessions.find(request.headers) is not None:
            return console.redirect(destination)
        return _form(console, request, destination, by_link=by_link)

    @post(SIGN_IN, status_code=HTTPStatus.OK, request_max_body_size=_MAX_BODY)
    async def sign_in(request: Request[Any, Any, Any]) -> Response[str]:
        """Sign in with the token or the link in the form."""
        fields = await _read_form(request)
        destination, link = next_page(fields.get("next")), fields.get("link", "")
        if link:
            # Not counted: somebody with a shell made it, and it works once.
            session = await catalog.sessions.redeem_link(link[:_MAX_SECRET], clock_us())
        else:
            session = await _by_token(catalog, callers, fields.get("token", "").strip(), clock_us())
        address = callers.address_of(request.scope)
        if session is None:
            callers.count_unauthenticated(address)
            return _form(console, request, destination, problem="link" if link else "token")
        token, secret = session
        security.info("signed in", extra={"peer": address, "token": token})
        await sessions.end(request.headers)
        response = console.redirect(destination)
        response.headers["Set-Cookie"] = sessions.cookie.issue(secret)
        return response

    @post(SIGN_OUT, status_code=HTTPStatus.OK, request_max_body_size=_MAX_BODY)
    async def sign_out(request: Request[Any, Any, Any]) -> Response[str]:
        """End the browser's session."""
        await _read_form(request)
        await sessions.end(request.headers)
        response = console.redirect(SIGN_IN)
        response.headers["Set-Cookie"] = sessions.cookie.clear()
        return response

    return [show_sign_in, sign_in, sign_out]


def _form(
    console: Console,
    request: Request[Any, Any, Any],  # Any: of no use to us
    destination: str,
    *,
    by_link: bool = False,
    problem: str = "",
) -> Response[str]:
    status = HTTPStatus.FORBIDDEN if problem else HTTPStatus.OK
    return console.page(
        request, "sign_in.html", status=status, next=destination, by_link=by_link, problem=problem
    )


async def _read_form(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the fields of a form that was sent by a page of the console.

    Raises:
        ApiError: 403 if another page sent it, 422 if it is not a form.
    """
    if not is_same_origin(request.headers):
        raise ApiError(HTTPStatus.FORBIDDEN, "This form is not one of the console's own pages.")
    body = await read_raw_body(request)
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, _INVALID_FORM) from error


async def _by_token(
    catalog: Catalog, callers: CallerRateLimiter, token: str, now_us: int
) -> tuple[int, str] | None:
    """Return the number of a valid token, and the secret of a new session of it.

    Raises:
        ApiError: 429, it has signed in too often.
    """
    principal = await catalog.tokens.authenticate(token) if len(token) <= _MAX_SECRET else None
    if principal is None:
        return None
    callers.count_sign_in(principal.id)
    try:
        return principal.id, await catalog.sessions.add(principal.id, now_us)
    except TokenRevoked:
        return None
