"""The network of an address, by which limits count clients.

A site with IPv6 has 2**64 addresses in each of its networks, and a privacy extension uses many of
them, so an IPv6 address counts for its /64. One customer often has a whole /48, which is 65 536 of
these; it gets a larger limit of its own. Pure.
"""

import ipaddress

_NETWORK_BITS = 64
_SITE_BITS = 48


def client_network(address: str) -> str:
    """Return the network of one client: an IPv4 address itself, or the /64 of an IPv6 address.

    An IPv4 address in an IPv6 one (`::ffff:192.0.2.1`) is the IPv4 address. Other texts count for
    themselves.
    """
    parsed = _ipv6(address)
    if parsed is None:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return _network(parsed, _NETWORK_BITS)


def site_network(address: str) -> str | None:
    """Return the /48 of an IPv6 address; None for other addresses."""
    parsed = _ipv6(address)
    if parsed is None or parsed.ipv4_mapped is not None:
        return None
    return _network(parsed, _SITE_BITS)


def _ipv6(address: str) -> ipaddress.IPv6Address | None:
    if ":" not in address:
        return None
    try:
        return ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return None


def _network(address: ipaddress.IPv6Address, bits: int) -> str:
    shift = 128 - bits
    return str(ipaddress.IPv6Network((int(address) >> shift << shift, bits)))
