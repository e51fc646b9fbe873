"""Listening sockets, and the public addresses that follow from them.

A role binds only its own sockets, or takes those that systemd holds for it. For the sockets of
other roles it reads the ports from the settings, so that every process publishes the same
addresses.
"""

import socket
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec

from api.schemas.urls import Addresses
from headend.config.host_settings import HostsSettings
from headend.config.settings import ServiceSettings

EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # recognised here, bound nowhere


class AddressError(Exception):
    """An address in the settings cannot be used; the message names it."""


def parse(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT` or `[HOST]:PORT`.

    Raises:
        AddressError: the text has another form.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:1935")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise AddressError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def bind(text: str) -> socket.socket:
    """Return a bound socket; `[::]` includes IPv4, and port 0 picks a free port.

    Raises:
        AddressError: the address is invalid, in use or not of this machine.
    """
    host, port = parse(text)
    with _named(text):
        return _bind(_resolve(host, port), both=host in EVERYWHERE)


@contextmanager
def _named(text: str) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise AddressError(f"cannot listen on {text}: {error.strerror or error}") from error


def _resolve(host: str, port: int) -> Sequence["_AddressInfo"]:
    return socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


class HeldSockets:
    """The listening sockets that a service manager holds, until a role takes them by address."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = list(sockets)

    def take(self, text: str) -> socket.socket | None:
        """Return the socket that listens on `text`, which is `HOST:PORT`; None if there is none.

        Raises:
            AddressError: the address is invalid, or the port is held for other addresses.
        """
        host, port = parse(text)
        for sock in self._sockets:
            if port_of(sock) != port:
                continue
            held = str(sock.getsockname()[0])
            with _named(text):
                meant = {host, *(str(info[4][0]) for info in _resolve(host, port))}
            if held not in meant and not {held, host} <= EVERYWHERE:
                raise AddressError(
                    f"cannot listen on {text}: systemd holds port {port} of {held}, as the socket"
                    " unit has it; make the two the same"
                )
            self._sockets.remove(sock)
            return sock
        return None

    def require_taken(self) -> None:
        """Check that all have been taken: whoever connects to another one would wait in vain.

        Raises:
            AddressError: one is left.
        """
        for sock in self._sockets:
            host, port = sock.getsockname()[:2]
            raise AddressError(
                f"systemd holds port {port} of {host}, which no setting names: change the socket"
                " unit, or the setting"
            )


_AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


def _bind(resolved: Sequence[_AddressInfo], *, both: bool) -> socket.socket:
    family, kind, protocol, _, address = resolved[0]
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError:
        if not both:
            raise
        # On a kernel without IPv6, "everywhere" means every IPv4 address.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = ("0.0.0.0", address[1])  # noqa: S104 # the operator asked for every address
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def host_of(url: str) -> str:
    """Return the host of a URL, or "" if it has none."""
    return urlsplit(url).hostname or ""


def public_base(public: str, scheme: str, listen: str, port: int, fallback: str) -> str:
    """Return the public base URL of a socket, without a trailing slash.

    A configured `public` URL wins. Otherwise the host is the listening one if it is specific, else
    `fallback` ("" means localhost), with the bound `port`.
    """
    if public:
        return public.rstrip("/")
    host = parse(listen)[0] if listen else ""
    host = fallback or "localhost" if host in EVERYWHERE or fallback else host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def port_of(sock: socket.socket | None) -> int:
    """Return the port that a socket is bound to, or 0 without a socket."""
    return int(sock.getsockname()[1]) if sock is not None else 0


class ListenSockets(msgspec.Struct, frozen=True, kw_only=True):
    """The bound sockets of a role; None for those that are disabled or belong to another role."""

    http: socket.socket | None = None
    rtmp: socket.socket | None = None
    rtmps: socket.socket | None = None
    status: socket.socket | None = None
    relay: socket.socket | None = None

    @classmethod
    def bind(
        cls,
        settings: ServiceSettings,
        stack: ExitStack | AsyncExitStack,
        *,
        origin: bool,
        ingest: bool,
        held: Sequence[socket.socket] = (),
    ) -> "ListenSockets":
        """Bind the sockets of origin (HTTP), of ingest (RTMP, RTMPS) or both, until `stack` ends.

        Each has one for health and metrics as well, and an ingest that shares a PostgreSQL database
        has one for what other hosts relay, if the settings name their addresses. Those that are
        `held` by a service manager are taken instead, by their addresses.

        Raises:
            AddressError: a socket cannot be bound.
        """

        holder = HeldSockets(held)

        def required(listen: str) -> socket.socket:
            return stack.enter_context(holder.take(listen) or bind(listen))

        def optional(listen: str) -> socket.socket | None:
            return required(listen) if listen else None

        status = settings.status.listen if origin else settings.ingest.status if ingest else ""
        sockets = cls(
            http=required(settings.http.listen) if origin else None,
            rtmp=optional(settings.rtmp.listen) if ingest else None,
            rtmps=optional(settings.rtmps.listen) if ingest else None,
            status=optional(status),
            relay=optional(settings.hosts.relay_listen)
            if ingest and settings.database.url
            else None,
        )
        holder.require_taken()
        return sockets

    def relay_address(self, hosts: HostsSettings) -> str | None:
        """Return the address that other hosts relay to; None without a socket for it.

        Raises:
            AddressError: the settings have no address that others can connect to.
        """
        if self.relay is None:
            return None
        if hosts.relay_address:
            parse(hosts.relay_address)
            return hosts.relay_address
        host = parse(hosts.relay_listen)[0]
        if host in EVERYWHERE:
            raise AddressError(
                f"hosts.relay_listen is {hosts.relay_listen}, which is every address of this"
                " machine: set hosts.relay_address to the one that other hosts connect to"
            )
        return f"{f'[{host}]' if ':' in host else host}:{port_of(self.relay)}"

    def addresses(self, settings: ServiceSettings) -> Addresses:
        """Return the public addresses that follow from the settings and the bound ports.

        Raises:
            AddressError: the RTMP port is chosen at random by another process.
        """
        host = host_of(settings.http.public_url)
        section = settings.http
        port = port_of(self.http) or parse(section.listen)[1]
        http = public_base(section.public_url, "http", section.listen, port, "")

        def encoders(scheme: str, public: str, listen: str, sock: socket.socket | None) -> str:
            if not (listen or public):
                return ""
            port = _encoders_port(scheme, public, listen, sock)
            return public_base(public, scheme, listen, port, host)

        rtmp = encoders("rtmp", settings.rtmp.public_url, settings.rtmp.listen, self.rtmp)
        rtmps = encoders("rtmps", settings.rtmps.public_url, settings.rtmps.listen, self.rtmps)
        return Addresses(
            http=http,
            playback=settings.http.playback_url.rstrip("/") or http,
            rtmp=rtmp,
            rtmps=rtmps,
            rtmp_backup=settings.rtmp.backup_public_url.rstrip("/") or rtmp,
            rtmps_backup=settings.rtmps.backup_public_url.rstrip("/") or rtmps,
        )


def _encoders_port(scheme: str, public: str, listen: str, sock: socket.socket | None) -> int:
    port = port_of(sock)
    if port or not listen:
        return port
    port = parse(listen)[1]
    if not port and not public:
        raise AddressError(
            f"{scheme}.listen is {listen}, a free port that only `headend ingest` knows:"
            f" set a port, or {scheme}.public_url"
        )
    return port
