"""The address of the client of a request, behind trusted proxies.

A proxy appends the address of its peer to `X-Forwarded-For`. Only entries written by trusted
proxies are reliable: read from the right, the first address that is not a trusted proxy is the
client; everything left of it was sent by the client itself. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

Address = IPv4Address | IPv6Address
# As on the wire, names in lower case.
RawHeaders = Sequence[tuple[bytes, bytes]]

_Network = IPv4Network | IPv6Network
_FORWARDED: Final = b"x-forwarded-for"
_KNOWN: Final = 4096  # parsed addresses of proxies and viewers that are cached
_LONGEST: Final = 64  # characters of an address with port, brackets and zone


class BadNetwork(ValueError):
    """A setting of trusted proxies is not a valid network; the message names it."""


@lru_cache(_KNOWN)
def parse_address(text: str) -> Address | None:
    """Parse an address with optional port, brackets or zone; None if it is not one.

    An IPv4 address in an IPv6 one (`::ffff:192.0.2.1`) is the IPv4 address.
    """
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def header_values(headers: RawHeaders, name: bytes) -> list[str]:
    """Return the values of all headers with this name, in order."""
    return [value.decode("latin-1") for each, value in headers if each == name]


class TrustedProxies:
    """The trusted proxies, and the client of a request behind them."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        """Trust these networks (`10.0.0.0/8`, `2001:db8::/32`, or single addresses).

        Raises:
            BadNetwork: one of them is not a valid network.
        """
        self._proxies = tuple(_network(text) for text in proxies)

    @classmethod
    def parse(cls, networks: str) -> "TrustedProxies":
        """Parse a setting: networks separated by commas or spaces.

        Raises:
            BadNetwork: one of them is not a valid network.
        """
        return cls(networks.replace(",", " ").split())

    @property
    def is_empty(self) -> bool:
        """True if no proxy is trusted."""
        return not self._proxies

    def is_proxy(self, address: Address | None) -> bool:
        """Return True if the address belongs to a trusted proxy."""
        return address is not None and any(address in network for network in self._proxies)

    def client_of(self, peer: str | None, headers: RawHeaders) -> Address | None:
        """Return the address of the client; None if a trusted proxy sent one that cannot be parsed.

        `peer` is the address at the other end of the connection, None for a local socket.
        """
        at = parse_address(peer) if peer else None
        if not self._proxies or not self.is_proxy(at):
            return at
        hops = ",".join(header_values(headers, _FORWARDED))
        while hops:
            hops, _, last = hops.rpartition(",")
            # Longer texts are not addresses, and parsing would cache them.
            at = parse_address(last) if len(last) <= _LONGEST else None
            if not self.is_proxy(at):
                return at
        return at

    def client_address(self, scope: Mapping[str, Any]) -> str:  # Any: ASGI's own map
        """Return the client's address as text, or that of the connection if it is unknown."""
        client = scope.get("client")
        peer = str(client[0]) if client else None
        address = self.client_of(peer, scope.get("headers", ())) or (
            parse_address(peer) if peer else None
        )
        return str(address) if address is not None else peer or ""


def _network(text: str) -> _Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise BadNetwork(f"http.trusted_proxies: {text!r} is no address and no network") from error
    if network.prefixlen == 0:
        # Every client could then choose its own address.
        message = f"{text!r} matches every address, so it cannot be a trusted proxy"
        raise BadNetwork(f"http.trusted_proxies: {message}")
    return network
