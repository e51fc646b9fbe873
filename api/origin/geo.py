"""The country of a viewer, from the header of a trusted proxy or from a database.

The database is a file in MaxMind's format from any vendor. It is read into memory as a whole,
since overwriting a mapped file would crash the process; a newer file is loaded within ten seconds.
An uncertain country is unknown, and viewers in unknown countries see nothing that is restricted.
"""

import asyncio
import logging
from collections import OrderedDict
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, Protocol

import maxminddb

from api.http.client_address import (
    Address,
    RawHeaders,
    TrustedProxies,
    header_values,
    parse_address,
)

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0
_MOST_REMEMBERED: Final = 20_000  # addresses of about 200 bytes each; a lookup costs 10 us
# What proxies send for an unknown country and for Tor.
_NOWHERE: Final = frozenset({"XX", "T1"})
# This host and its local networks. `is_private` of the standard library includes others.
_PRIVATE: Final[tuple[IPv4Network | IPv6Network, ...]] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
# Headers that a proxy adds, and that clients do not send.
_SIGNS_OF_PROXIES: Final = frozenset({b"x-forwarded-for", b"forwarded", b"via", b"x-real-ip"})


class _GeoReader(Protocol):
    """The part of a database reader that is used here."""

    def get(self, ip_address: Address, /) -> object: ...


class GeoError(Exception):
    """The database or a setting is invalid; the message says which."""


class CountryResolver:
    """Resolves the country of viewers; `keep_fresh` must run beside it."""

    def __init__(
        self,
        clients: TrustedProxies | None = None,
        *,
        database: str = "",
        trusted_header: str = "",
        private_country: str = "",
        public: bool = False,
    ) -> None:
        """Read the database; without one only the header and `private_country` are used.

        `public`: the service has a public URL, so whatever serves it may be a proxy that adds no
        header. Then a private address means nothing, unless a proxy is trusted.

        Raises:
            GeoError: a setting is invalid, or the database cannot be read.
        """
        self._clients = clients or TrustedProxies()
        self._header = trusted_header.strip().lower().encode()
        self._private = _letters(private_country)
        self._hides_viewers = public and self._clients.is_empty
        if private_country and self._private is None:
            raise GeoError(f"geo.private_country: {private_country!r} is no country's two letters")
        self._path = Path(database) if database else None
        self._reader: _GeoReader | None = None
        self._mark: tuple[int, int, int] | None = None
        self._countries: OrderedDict[Address, str | None] = OrderedDict()
        self._warned = False
        if self._path is not None:
            try:
                self._reader, self._mark = _load(self._path)
            except _UNREADABLE as error:
                raise GeoError(f"geo.database: {self._path}: {_why(error)}") from error

    def country(self, peer: str | None, headers: RawHeaders) -> str | None:
        """Return the two-letter country code of a request; None if unknown.

        `peer` is the address of the connection's peer.
        """
        peer_address = parse_address(peer) if peer else None
        proxied = self._clients.is_proxy(peer_address)
        if proxied and self._header and (countries := header_values(headers, self._header)):
            return _letters(countries[0]) if len(set(countries)) == 1 else None
        address = self._clients.client_of(peer, headers)
        if address is None or (proxied and address == peer_address):  # the proxy named no client
            return None
        if self._private is not None and _is_private(address):
            may_be_proxied = self._hides_viewers or (
                not proxied and any(name in _SIGNS_OF_PROXIES for name, _ in headers)
            )
            if may_be_proxied:
                self._warn(address)
            return None if may_be_proxied else self._private
        return self._look_up(address)

    async def keep_fresh(self) -> None:
        """Reload the database whenever the file changes, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Reload the database if the file has changed; log an unreadable file once.

        The previous database stays in use, since countries of addresses rarely change.
        """
        if self._path is None:
            return
        mark = await asyncio.to_thread(_mark, self._path)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            reader, self._mark = await asyncio.to_thread(_load, self._path)
        except _UNREADABLE as error:
            log.error("geo database not read", extra={"reason": _why(error)})  # noqa: TRY400  # the world's
            return
        self._reader = reader
        self._countries.clear()
        log.info("geo database read", extra={"file": self._path.name})

    def _warn(self, neighbour: Address) -> None:
        """Log once that viewers seem to use a proxy that is not configured."""
        if not self._warned:
            self._warned = True
            log.warning(
                "a proxy is not among http.trusted_proxies: country unknown",
                extra={"peer": str(neighbour)},
            )

    def _look_up(self, address: Address) -> str | None:
        if self._reader is None:
            return None
        if address in self._countries:
            return self._countries[address]
        try:
            country = _country_in(self._reader.get(address))
        except ValueError:  # an IPv6 address in a database of IPv4 addresses
            country = None
        except _DAMAGED as error:
            log.error("geo database broken", extra={"reason": _why(error)})  # noqa: TRY400  # the world's
            self._reader = None
            return None
        self._countries[address] = country
        if len(self._countries) > _MOST_REMEMBERED:
            self._countries.popitem(last=False)
        return country


# Errors of the reader on corrupt data, which it does not validate.
_DAMAGED: Final = (maxminddb.InvalidDatabaseError, TypeError, LookupError)
_UNREADABLE: Final = (OSError, ValueError, *_DAMAGED)


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Return an identifier of the file's version; None without a file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _load(path: Path) -> tuple[_GeoReader, tuple[int, int, int] | None]:
    mark = _mark(path)  # before reading, so that a change in between causes another reload
    reader = maxminddb.Reader(str(path), maxminddb.MODE_MEMORY)
    return reader, mark


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _country_in(record: object) -> str | None:
    """Return the country of a record, in any of the vendors' formats.

    `{"country": {"iso_code": "RO"}}`, `{"country_code": "RO"}`, `{"country": "RO"}`.
    """
    if not isinstance(record, dict):
        return None
    country: object = record.get("country")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # any maker's
    if isinstance(country, dict):
        country = country.get("iso_code")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # as above
    elif country is None:
        country = record.get("country_code")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # as above
    return _letters(country) if isinstance(country, str) else None


def _letters(text: str) -> str | None:
    """Return a two-letter country code in upper case; None for anything else."""
    text = text.strip()
    if len(text) != 2 or not (text.isascii() and text.isalpha()):
        return None
    return None if text.upper() in _NOWHERE else text.upper()


def _is_private(address: Address) -> bool:
    return any(address in network for network in _PRIVATE)
