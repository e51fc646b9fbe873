"""Listening sockets from settings, and the public addresses that follow from them."""

import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

__all__ = ["AddressError", "bind", "host_of", "parse", "public_base"]

_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 # recognised here, bound nowhere


class AddressError(Exception):
    """An address in the settings cannot be used; the text names it."""


def parse(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[HOST]:PORT`.

    Raises:
        AddressError: it has another form.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:1935")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise AddressError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def bind(text: str) -> socket.socket:
    """Return a bound socket; `[::]` takes IPv4 too, port 0 a free port.

    Raises:
        AddressError: the address is wrong, taken or not this machine's.
    """
    host, port = parse(text)
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _bind(found, both=host in _EVERYWHERE)
    except OSError as error:
        raise AddressError(f"cannot listen on {text}: {error.strerror or error}") from error


_Found = tuple[int, int, int, str, tuple[object, ...]]


def _bind(found: Sequence[_Found], *, both: bool) -> socket.socket:
    family, kind, protocol, _, address = found[0]
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError:
        if not both:
            raise
        # A kernel without IPv6: every IPv4 address is what is left of "everywhere".
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
    """Return the host of an address, "" where it has none."""
    return urlsplit(url).hostname or ""


def public_base(public: str, scheme: str, listen: str, port: int, fallback: str) -> str:
    """Return the base address that others use, without a slash at its end.

    `public` is the operator's word and wins; else it is the listening host where that is one that
    others can name, else `fallback` ("" for localhost), with the port that was bound.
    """
    if public:
        return public.rstrip("/")
    host = parse(listen)[0] if listen else ""
    host = fallback or "localhost" if host in _EVERYWHERE or fallback else host
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
