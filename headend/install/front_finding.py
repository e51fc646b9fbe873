"""Whether viewers reach HTTP as they should: over TLS, through a web server that is trusted.

Headend speaks no TLS on HTTP. So an `https://` address means that a web server is in front; if
`http.trusted_proxies` does not name it, its `X-Forwarded-For` is passed over, and all viewers count
as one. An address that strangers can reach without TLS gives sessions and tokens to the network.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from api.operations.report import Finding
from headend.config.listen_sockets import EVERYWHERE, parse
from headend.config.settings import ServiceSettings

_TOPIC: Final = "web server"
# Names that no public server has (RFC 6761, RFC 6762, RFC 8375, and ICANN's for private use).
_LOCAL: Final = ("localhost", ".localhost", ".local", ".home.arpa", ".internal", ".test", ".lan")
# A route to these says which address this machine has towards the internet; nothing is sent.
_STRANGERS: Final = ((socket.AF_INET, "198.41.0.4"), (socket.AF_INET6, "2001:503:ba3e::2:30"))

Address = IPv4Address | IPv6Address


def front_finding(settings: ServiceSettings, own: tuple[Address, ...] | None = None) -> Finding:
    """Return the finding on the way of viewers; `own`: this machine's addresses, if known."""
    url = urlsplit(settings.http.public_url)
    proxied = bool(settings.http.trusted_proxies.strip())
    if url.scheme == "https" and not proxied:
        return _act(
            "http.public_url is https, so a web server is in front, and http.trusted_proxies does"
            " not name it: its X-Forwarded-For is passed over, and all viewers count as one"
        )
    if url.scheme == "http" and _is_public(url.hostname or ""):
        return _act(
            f"http.public_url is http://{url.hostname}: tokens and sessions cross public networks"
            " in the clear; put a web server with a certificate in front"
        )
    if not proxied and (address := _public_listener(settings, own)):
        return _act(
            f"HTTP is served without TLS at the public address {address}: listen at 127.0.0.1, and"
            " put a web server with a certificate in front"
        )
    text = f"{url.scheme or 'http'}, {'through' if proxied else 'without'} a trusted proxy"
    return Finding(topic=_TOPIC, verdict="well", text=text)


def _act(text: str) -> Finding:
    return Finding(topic=_TOPIC, verdict="act", text=text)


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_LOCAL)


def _public_listener(settings: ServiceSettings, own: tuple[Address, ...] | None) -> str:
    """Return the public address at which HTTP listens, or ""."""
    host = parse(settings.http.listen)[0].strip("[]")
    if host in EVERYWHERE:
        addresses = _own_addresses() if own is None else own
        return next((str(each) for each in addresses if each.is_global), "")
    return host if _is_public(host) else ""


def _own_addresses() -> tuple[Address, ...]:
    found: list[Address] = []
    for family, stranger in _STRANGERS:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((stranger, 53))
                found.append(ip_address(sock.getsockname()[0]))
        except OSError:  # no such network
            continue
    return tuple(found)
