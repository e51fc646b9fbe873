"""The sockets that a role listens on, and the addresses that all roles give out.

A role binds only its own doors. For the others it takes the ports from the settings, so that each
process tells the same addresses.
"""

import socket
from contextlib import AsyncExitStack, ExitStack

import msgspec

from api.schemas.urls import Addresses
from headend.config.settings import Settings
from headend.config.sockets import AddressError, bind, host_of, parse, public_base

__all__ = ["Doors", "port_of"]


def port_of(sock: socket.socket | None) -> int:
    """Return the port that a socket is bound to, 0 without a socket."""
    return int(sock.getsockname()[1]) if sock is not None else 0


class Doors(msgspec.Struct, frozen=True, kw_only=True):
    """The bound sockets; None where a door stays shut or is another process's."""

    http: socket.socket | None = None
    rtmp: socket.socket | None = None
    rtmps: socket.socket | None = None

    @classmethod
    def bound(
        cls,
        settings: Settings,
        stack: ExitStack | AsyncExitStack,
        *,
        viewers: bool,
        encoders: bool,
    ) -> "Doors":
        """Bind the doors of viewers (HTTP), of encoders (RTMP, RTMPS) or both, till `stack` ends.

        Raises:
            AddressError: one cannot be bound.
        """

        def door(listen: str) -> socket.socket | None:
            return stack.enter_context(bind(listen)) if listen else None

        return cls(
            http=stack.enter_context(bind(settings.http.listen)) if viewers else None,
            rtmp=door(settings.rtmp.listen) if encoders else None,
            rtmps=door(settings.rtmps.listen) if encoders else None,
        )

    def addresses(self, settings: Settings) -> Addresses:
        """Return the addresses that follow from settings and ports.

        Raises:
            AddressError: encoders' port is chosen freely, by a process that is not this one.
        """
        host = host_of(settings.http.public_url)
        section = settings.http
        port = port_of(self.http) or parse(section.listen)[1]
        http = public_base(section.public_url, "http", section.listen, port, "")

        def encoders(scheme: str, public: str, listen: str, sock: socket.socket | None) -> str:
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
