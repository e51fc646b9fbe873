"""Who is at the other end of a request: its client's address, through trusted proxies alone.

A proxy adds the address that it was asked from to the right of `X-Forwarded-For`. What stands there
is true as far as proxies of ours wrote it: from the right, the first hop that is none of them is
the client, and all that stands left of it is what the client says about itself. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, Final

__all__ = [
    "Address",
    "BadNetwork",
    "RawHeaders",
    "TrustedProxies",
    "header_values",
    "parse_address",
]

Address = IPv4Address | IPv6Address
# As they came over the wire, names in lower case.
RawHeaders = Sequence[tuple[bytes, bytes]]

_Network = IPv4Network | IPv6Network
_FORWARDED: Final = b"x-forwarded-for"
_KNOWN: Final = 4096  # addresses of proxies and viewers whose text was read before
_LONGEST: Final = 64  # characters of an address, with all that may stand around it


class BadNetwork(ValueError):
    """A network of proxies is not written as one; the text names it."""


@lru_cache(_KNOWN)
def parse_address(text: str) -> Address | None:
    """Read an address, with or without a port, brackets or a zone; None where it is none.

    An IPv4 address in an IPv6 one (`::ffff:192.0.2.1`) is the IPv4 address.
    """
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def header_values(headers: RawHeaders, name: bytes) -> list[str]:
    """Return the values of every header of that name, in order."""
    return [value.decode("latin-1") for each, value in headers if each == name]


class TrustedProxies:
    """Knows which proxies are ours, and so whom a request is from."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        """Trust these networks (`10.0.0.0/8`, `2001:db8::/32`, or single addresses).

        Raises:
            BadNetwork: one of them is none.
        """
        self._proxies = tuple(_network(text) for text in proxies)

    @classmethod
    def parse(cls, networks: str) -> "TrustedProxies":
        """Read a setting: networks with commas or spaces between.

        Raises:
            BadNetwork: one of them is none.
        """
        return cls(networks.replace(",", " ").split())

    def is_proxy(self, address: Address | None) -> bool:
        """Say whether the address is one of our proxies'."""
        return address is not None and any(address in network for network in self._proxies)

    def client_of(self, peer: str | None, headers: RawHeaders) -> Address | None:
        """Return the client's address; None where a proxy of ours named it in a way not known.

        `peer` is the address at the other end of the connection, None for a local socket.
        """
        at = parse_address(peer) if peer else None
        if not self._proxies or not self.is_proxy(at):
            return at
        hops = ",".join(header_values(headers, _FORWARDED))
        while hops:
            hops, _, last = hops.rpartition(",")
            # What is far longer is none, and would be remembered.
            at = parse_address(last) if len(last) <= _LONGEST else None
            if not self.is_proxy(at):
                return at
        return at

    def client_address(self, scope: Mapping[str, Any]) -> str:  # Any: ASGI's own map
        """Return the client of a request as text; of one that is not known, the connection's."""
        client = scope.get("client")
        peer = str(client[0]) if client else None
        found = self.client_of(peer, scope.get("headers", ())) or (
            parse_address(peer) if peer else None
        )
        return str(found) if found is not None else peer or ""


def _network(text: str) -> _Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise BadNetwork(f"http.trusted_proxies: {text!r} is no address and no network") from error
    if network.prefixlen == 0:
        # Everybody could then say of themselves what they like.
        raise BadNetwork(f"http.trusted_proxies: {text!r} is everybody, not a proxy")
    return network
