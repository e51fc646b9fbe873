"""Decide which web addresses files may be fetched from, and which hosts may be connected to.

Pure: no name is looked up here. The addresses of a name are known only after the lookup, so
`is_fetchable` is called for each address that a connection is about to be made to. An address may
hold a secret (a signed query, an unguessable path), so only its host is ever shown.
Source: RFC 3986, RFC 9110 section 4.2; IANA's registries of special-purpose addresses (RFC 6890).
"""

import re
import string
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Signed addresses of object stores take 1 to 2 KB; servers refuse lines beyond 8 KB.
MAX_URL: Final = 4096  # characters
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[0-9a-z_](?:[0-9a-z_.-]{0,251}[0-9a-z_])?")
# Characters that URL parsers silently drop or interpret differently.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_REFUSED_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and internal services of some clouds
        "127.0.0.0/8",
        "168.63.129.16/32",  # an internal service of a cloud on an address that looks public
        "169.254.0.0/16",  # link-local, and cloud metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All public IPv6 addresses. Those that embed an IPv4 address (mapped, NAT64) lie outside.
_PUBLIC_6: Final = IPv6Network("2000::/3")
_REFUSED_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4 embeds an IPv4 address
        "3fff::/20",
    )
)


class OutboundError(Exception):
    """A server was not called, or did not answer; `reason` is a sentence for who named it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BadWebAddress(OutboundError):
    """No file can be fetched from the address."""


class WebAddress(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A parsed web address.

    `host` is a name in ASCII or an IP address without brackets. `target` is the path with its
    query, which `repr` leaves out.
    """

    scheme: str
    host: str
    port: int
    target: str

    def __repr__(self) -> str:
        return f"WebAddress({self.scheme}://{self.netloc})"

    @property
    def netloc(self) -> str:
        """Host and port as in the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.netloc}{self.target}"

    @property
    def file_name(self) -> str:
        """The last part of the path if that looks like a file name, else ""."""
        last = self.target.partition("?")[0].rpartition("/")[2]
        return unquote(last) if re.fullmatch(r".+\.[0-9A-Za-z]{2,5}", last) else ""

    def redirected(self, location: str, ports: Collection[int]) -> "WebAddress":
        """Return the address that a `Location` header redirects to.

        Raises:
            BadWebAddress: no file can be fetched from the new address.
        """
        try:
            return parse_web_address(urljoin(self.url, location), ports)
        except ValueError as error:
            raise BadWebAddress("The address is not a web address.") from error


def parse_web_address(url: str, ports: Collection[int]) -> WebAddress:
    """Parse an address; `ports` are the ports that may be connected to.

    Raises:
        BadWebAddress: no file can be fetched from the address.
    """
    if len(url) > MAX_URL:
        raise BadWebAddress(f"The address may have at most {MAX_URL} characters.")
    if _FORBIDDEN.search(url):
        raise BadWebAddress("The address must not contain spaces, backslashes or controls.")
    try:
        parts = urlsplit(url)
        port, name = parts.port, parts.hostname or ""
    except ValueError as error:
        raise BadWebAddress("The address is not a web address.") from error
    if parts.scheme not in _PORTS:
        raise BadWebAddress("The address must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise BadWebAddress("The address must not contain a user name or a password.")
    port = _PORTS[parts.scheme] if port is None else port
    if port not in ports:
        raise BadWebAddress(f"Port {port} is not one that files are fetched from.")
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    # Keep existing escapes; escape what a request line must not contain.
    try:
        target = quote(target, safe=string.punctuation)
    except UnicodeError as error:  # half of a surrogate pair
        raise BadWebAddress("The address is not a web address.") from error
    return WebAddress(scheme=parts.scheme, host=_host(name), port=port, target=target)


def _host(name: str) -> str:
    if ":" in name:
        try:
            literal = IPv6Address(name)
        except ValueError as error:
            raise BadWebAddress("The address names no host.") from error
        if literal.scope_id is not None:
            raise BadWebAddress("The address names no host.")
        return str(literal)
    try:
        plain = name.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError as error:
        raise BadWebAddress("The address names no host.") from error
    if not _HOST.fullmatch(plain):
        raise BadWebAddress("The address names no host.")
    return plain


def is_ip_literal(host: str) -> bool:
    """Return whether a host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_fetchable(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Return whether connecting to an address is allowed.

    Public addresses are, and those in the `allowed` networks.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if any(parsed in network for network in allowed if network.version == parsed.version):
        return True
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in _REFUSED_4)
    return parsed in _PUBLIC_6 and not any(parsed in network for network in _REFUSED_6)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse a comma-separated list of networks.

    Raises:
        ValueError: one is not a network; the message names it.
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
