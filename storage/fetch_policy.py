"""Addresses on the web that files are fetched from: which are taken, and which machines they may
lead to. Pure: no name is looked up here.

What a name leads to is known when it is looked up, so `is_open` is asked of each address that a
connection is to be made to. Whatever an address holds may be secret (a signed query, a path that
nobody else knows): only the host is ever shown.
Source: RFC 3986, RFC 9110 section 4.2; IANA's registries of special-purpose addresses (RFC 6890).
"""

import re
import string
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import msgspec

__all__ = [
    "MAX_URL",
    "BadWebAddress",
    "Network",
    "WebAddress",
    "is_fetchable",
    "is_ip_literal",
    "parse_networks",
    "parse_web_address",
]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Signed addresses of object stores take 1 to 2 KB; servers refuse lines beyond 8 KB.
MAX_URL: Final = 4096  # characters
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[0-9a-z_](?:[0-9a-z_.-]{0,251}[0-9a-z_])?")
# What a reader of addresses would silently leave out, or take for something else.
_ILL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_REFUSED_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's translation, and some clouds' own services
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's own service on an address that looks public
        "169.254.0.0/16",  # link-local, and the clouds' metadata
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
# All that is public is in here. What holds an IPv4 address (mapped, translated by NAT64) is not.
_PUBLIC_6: Final = IPv6Network("2000::/3")
_REFUSED_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4 holds an IPv4 address
        "3fff::/20",
    )
)


class BadWebAddress(Exception):
    """No file can be fetched from such an address; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WebAddress(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Where a file is: `host` is a name in ASCII or an address without brackets, `target` the path
    with its query, which `repr` leaves out.
    """

    scheme: str
    host: str
    port: int
    target: str

    def __repr__(self) -> str:
        return f"WebAddress({self.scheme}://{self.netloc})"

    @property
    def netloc(self) -> str:
        """Host and port as the `Host` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.netloc}{self.target}"

    @property
    def file_name(self) -> str:
        """The last part of its path where that looks like a file's name, else ""."""
        last = self.target.partition("?")[0].rpartition("/")[2]
        return unquote(last) if re.fullmatch(r".+\.[0-9A-Za-z]{2,5}", last) else ""

    def redirected(self, location: str, ports: Collection[int]) -> "WebAddress":
        """Return the address that a server sends us on to.

        Raises:
            BadWebAddress: it is none that a file can be fetched from.
        """
        try:
            return parse_web_address(urljoin(self.url, location), ports)
        except ValueError as error:
            raise BadWebAddress("The address is not a web address.") from error


def parse_web_address(url: str, ports: Collection[int]) -> WebAddress:
    """Return the address in a text; `ports` are those that may be connected to.

    Raises:
        BadWebAddress: it is none that a file can be fetched from.
    """
    if len(url) > MAX_URL:
        raise BadWebAddress(f"The address may have at most {MAX_URL} characters.")
    if _ILL.search(url):
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
    # What stands escaped stays as it is; what no request line may hold is escaped.
    try:
        target = quote(target, safe=string.punctuation)
    except UnicodeError as error:  # half of a surrogate pair
        raise BadWebAddress("The address is not a web address.") from error
    return WebAddress(scheme=parts.scheme, host=_host(name), port=port, target=target)


def _host(name: str) -> str:
    if ":" in name:
        try:
            found = IPv6Address(name)
        except ValueError as error:
            raise BadWebAddress("The address names no host.") from error
        if found.scope_id is not None:
            raise BadWebAddress("The address names no host.")
        return str(found)
    try:
        plain = name.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError as error:
        raise BadWebAddress("The address names no host.") from error
    if not _HOST.fullmatch(plain):
        raise BadWebAddress("The address names no host.")
    return plain


def is_ip_literal(host: str) -> bool:
    """Say whether a host is an address itself, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_fetchable(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Say whether a connection may be made to an address; those in `allowed` networks may be."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if any(found in network for network in allowed if network.version == found.version):
        return True
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _REFUSED_4)
    return found in _PUBLIC_6 and not any(found in network for network in _REFUSED_6)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks in a text, with commas between.

    Raises:
        ValueError: one is none; the text names it.
    """
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
