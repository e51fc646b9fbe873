"""The sessions of browsers: a cookie in place of a token, and what keeps other pages from using it.

The cookie is `HttpOnly` and `SameSite=Strict`; where the service is reached over https it is
`Secure`, and `__Host-` keeps neighbouring hosts from setting it. The ports of a host share its
cookies, so the name ends with the port, lest two services overwrite each other's. Over plain http
neighbours can set cookies of this name for a path or a parent domain, too; they are read past.

A request that changes something must also come from a page of this service: it carries a header
that no form can send and that CORS allows to no other origin, and the browser marks it as of the
same origin (Fetch Metadata, or the `Origin` header where there is none, as over plain http).
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

import msgspec

from api.http.errors import ApiError
from api.schemas.urls import Addresses
from storage.catalog import Catalog
from storage.catalog.library.sessions import LIFE_SECONDS
from storage.catalog.records.common import Principal
from storage.wall_clock import wall_clock_us

CONSOLE_HEADER: Final = "x-headend-console"
_NAME: Final = "headend_session"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ELSEWHERE: Final = frozenset({"same-site", "cross-site"})
# Our secrets have 43 characters.
_MAX_SECRET: Final = 64
# Cookies of our name that are looked up: a browser sends one for each path and each parent domain
# for which one was set, ours among them, and each costs a query. The longest of our addresses has
# nine paths, and few hosts have three parent domains that may set cookies.
_MOST_COOKIES: Final = 32


class SessionCookie(msgspec.Struct, frozen=True):
    """The form of the cookie; `secure`: the service is reached over https, and only there.

    `port` is the service's, None for its scheme's own.
    """

    secure: bool
    port: int | None = None

    @property
    def name(self) -> str:
        """The cookie's name."""
        prefix = "__Host-" if self.secure else ""
        return f"{prefix}{_NAME}" if self.port is None else f"{prefix}{_NAME}_{self.port}"

    def secrets_in(self, cookies: str | None) -> tuple[str, ...]:
        """Return what may be secrets in the value of a `Cookie` header, each once, in order."""
        found: dict[str, None] = {}
        for pair in (cookies or "").split(";"):
            name, _, secret = pair.strip().partition("=")
            if name == self.name and 0 < len(secret) <= _MAX_SECRET:
                found[secret] = None
        return tuple(islice(found, _MOST_COOKIES))

    def issue(self, secret: str) -> str:
        """Return the `Set-Cookie` value that gives a browser its secret."""
        return self._set(secret, LIFE_SECONDS)

    def clear(self) -> str:
        """Return the `Set-Cookie` value that removes the cookie."""
        return self._set("", 0)

    def _set(self, secret: str, seconds: int) -> str:
        kind = "; Secure" if self.secure else ""
        return f"{self.name}={secret}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{kind}"


def is_from_elsewhere(site: str | None) -> bool:
    """Return True if `Sec-Fetch-Site` says that a page of another origin sends the request.

    Browsers send the cookie with requests of other ports and of sibling hosts as well.
    """
    return site in _ELSEWHERE


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return True if a browser sent this for a page of this service; names in lower case."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = headers.get("origin", ""), headers.get("host", "")
    return bool(host) and _host(origin) == host.lower()


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


class BrowserSessions:
    """Finds the sessions of requests; `clock_us` is the wall clock."""

    def __init__(
        self,
        catalog: Catalog,
        cookie: SessionCookie,
        clock_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self.cookie = cookie
        self._catalog = catalog
        self._clock_us = clock_us

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        addresses: Addresses,
        clock_us: Callable[[], int] = wall_clock_us,
    ) -> "BrowserSessions":
        """Return the sessions of a service that is reached at these addresses."""
        base = urlsplit(addresses.http)
        return cls(catalog, SessionCookie(base.scheme == "https", base.port), clock_us)

    async def find(self, headers: Mapping[str, str]) -> Principal | None:
        """Return the principal of the session whose cookie a request has; names in lower case.

        None if it has sessions of several tokens: somebody else has set one of them, and which one
        cannot be told. Signing in then ends them all.
        """
        found: Principal | None = None
        for secret in self.cookie.secrets_in(headers.get("cookie")):
            principal = await self._catalog.sessions.authenticate(secret, self._clock_us())
            if principal is not None and found is not None and principal.id != found.id:
                return None
            found = found or principal
        return found

    def are_named(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has a cookie of our name, valid or not."""
        return bool(self.cookie.secrets_in(headers.get("cookie")))

    async def end(self, headers: Mapping[str, str]) -> None:
        """End the sessions whose cookies a request has."""
        for secret in self.cookie.secrets_in(headers.get("cookie")):
            await self._catalog.sessions.remove(secret)

    async def find_for(self, method: str, headers: Mapping[str, str]) -> Principal | None:
        """Return the principal of a session for a request of the API.

        Raises:
            ApiError: 403, the request would change something and is not from our own pages, or is
                from a page of another origin.
        """
        principal = await self.find(headers)
        if principal is None or (
            method in _SAFE and not is_from_elsewhere(headers.get("sec-fetch-site"))
        ):
            return principal
        if CONSOLE_HEADER not in headers or not is_same_origin(headers):
            message = "Only the console's own pages may use a session; others send a token."
            raise ApiError(HTTPStatus.FORBIDDEN, message)
        return principal
