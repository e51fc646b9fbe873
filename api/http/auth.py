"""Who calls: bearer tokens (RFC 6750) and what they open.

No or a bad token is 401, a token without the right 403; another project's records are 404 where
they are looked up, as if they were not there.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api.http.cors import is_upload_options
from api.http.errors import ApiError
from api.http.rate_limit import UNLIMITED, CallerRateLimiter
from storage.catalog import Catalog
from storage.catalog.records.common import Principal

__all__ = ["Guard", "bearer_token", "is_owner", "needs_token", "needs_write"]

# Any: what Litestar leaves open to every application.
Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None]]

# Ours are 51 characters; what is far longer is nobody's and not worth a look.
_MAX_TOKEN: Final = 512


def bearer_token(authorization: str | None) -> str | None:
    """Return the token in an `Authorization` header's value; None where there is none."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN:
        return None
    return token


async def _principal(catalog: Catalog, authorization: str | None) -> Principal | None:
    token = bearer_token(authorization)
    return None if token is None else await catalog.tokens.authenticate(token)


async def is_owner(catalog: Catalog, authorization: str | None, hash_: str) -> bool:
    """Say whether an `Authorization` header holds a token that reaches the stream."""
    principal = await _principal(catalog, authorization)
    if principal is None:
        return False
    shown = await catalog.visibility.find(hash_)
    return shown is not None and principal.reaches(shown.project)


def needs_token(catalog: Catalog, rate_limiter: CallerRateLimiter | None = None) -> Guard:
    """Return the guard that lets only bearers of a token in; `request.auth` is then who it is.

    `callers` counts their requests, where these are limited.
    """
    counted = rate_limiter or CallerRateLimiter(UNLIMITED)

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        if is_upload_options(connection.scope):
            return
        authorization = connection.headers.get("authorization")
        token = bearer_token(authorization)
        address = counted.address_of(connection.scope)
        counted.check(token, address)
        principal = None if token is None else await catalog.tokens.authenticate(token)
        if token is None or principal is None:
            counted.count_unauthenticated(address, token)
            # RFC 6750, section 3: no error code where no token was sent at all.
            sent = ', error="invalid_token"' if authorization else ""
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "A valid token is needed: send it as `Authorization: Bearer <token>`.",
                headers={"WWW-Authenticate": f'Bearer realm="headend"{sent}'},
            )
        connection.scope["auth"] = principal
        counted.count(token, principal.id)

    return guard


def needs_write(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    """Let only tokens in that may write (a guard, after that of `needs_token`)."""
    principal = connection.auth
    if not (isinstance(principal, Principal) and principal.write):
        raise ApiError(HTTPStatus.FORBIDDEN, "This token may read, but not write.")
