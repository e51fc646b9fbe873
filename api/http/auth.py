"""Authentication by bearer token (RFC 6750) or by the session of a browser, as guards for Litestar.

A token in `Authorization` takes precedence over a session's cookie. A missing or invalid token gets
401, a token without the permission 403. Records of another project get 404 where they are looked
up, as if they did not exist.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.http.browser_headers import is_upload_options
from api.http.browser_sessions import BrowserSessions
from api.http.caller_limits import UNLIMITED, CallerRateLimiter
from api.http.errors import ApiError
from storage.catalog import Catalog
from storage.catalog.records.common import Principal

# Any: what Litestar leaves open to every application.
# A request that passed `needs_token`: `request.auth` is the bearer of its token.
ApiRequest = Request[Any, Principal, Any]
Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None]]

# Our tokens have 51 characters; far longer ones are rejected without a lookup.
_MAX_TOKEN: Final = 512


def bearer_token(authorization: str | None) -> str | None:
    """Return the bearer token in the value of an `Authorization` header, or None."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN:
        return None
    return token


async def _principal(catalog: Catalog, authorization: str | None) -> Principal | None:
    token = bearer_token(authorization)
    return None if token is None else await catalog.tokens.authenticate(token)


async def is_owner(catalog: Catalog, authorization: str | None, hash_: str) -> bool:
    """Return True if the `Authorization` header has a token with access to the stream."""
    return await _reaches(catalog, await _principal(catalog, authorization), hash_)


async def is_signed_in_owner(
    catalog: Catalog, sessions: BrowserSessions, cookie: str | None, hash_: str
) -> bool:
    """Return True if the `Cookie` header has a session with access to the stream."""
    principal = await sessions.find({"cookie": cookie or ""})
    return await _reaches(catalog, principal, hash_)


async def _reaches(catalog: Catalog, principal: Principal | None, hash_: str) -> bool:
    if principal is None:
        return False
    record = await catalog.visibility.find(hash_)
    return record is not None and principal.reaches(record.project)


def needs_token(
    catalog: Catalog,
    rate_limiter: CallerRateLimiter | None = None,
    sessions: BrowserSessions | None = None,
) -> Guard:
    """Return a guard that requires a valid token and sets `request.auth` to its principal.

    `rate_limiter` counts the requests; without one they are unlimited. `sessions` are those of
    browsers, whose cookies are accepted too; without them none are.
    """
    counted = rate_limiter or CallerRateLimiter(UNLIMITED)

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        if is_upload_options(connection.scope):
            return
        headers = connection.headers
        authorization = headers.get("authorization")
        if authorization is not None or sessions is None:
            principal = await _principal(catalog, authorization)
        else:
            scope = cast("Mapping[str, object]", connection.scope)  # a web-socket's has no method
            principal = await sessions.find_for(str(scope.get("method")), headers)
        if principal is None:
            # The pages of a browser whose session has ended ask on until it has signed in again: no
            # guesses, and counting them would refuse all others behind its address.
            if authorization is not None or sessions is None or not sessions.are_named(headers):
                counted.count_unauthenticated(counted.address_of(connection.scope))
            raise unauthenticated(sent=bool(authorization))
        connection.scope["auth"] = principal
        counted.count(principal.id)

    return guard


def unauthenticated(*, sent: bool) -> ApiError:
    """Return the error for a request without a valid token; `sent`: it had an invalid one."""
    # RFC 6750, section 3: no error code if no token was sent at all.
    cause = ', error="invalid_token"' if sent else ""
    return ApiError(
        HTTPStatus.UNAUTHORIZED,
        "A valid token is needed: send it as `Authorization: Bearer <token>`.",
        headers={"WWW-Authenticate": f'Bearer realm="headend"{cause}'},
    )


def needs_write(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Require a token that may write (a guard that follows `needs_token`).

    Raises:
        ApiError: 403 for a token that may only read.
    """
    principal = connection.auth
    if not (isinstance(principal, Principal) and principal.write):
        raise ApiError(HTTPStatus.FORBIDDEN, "This token may read, but not write.")


def needs_all_projects(
    connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
) -> None:
    """Require a token for all projects (a guard that follows `needs_token`).

    Raises:
        ApiError: 403 for a token of one project.
    """
    principal = connection.auth
    if not (isinstance(principal, Principal) and principal.project is None):
        message = "This operation needs a token for all projects."
        raise ApiError(HTTPStatus.FORBIDDEN, message)
