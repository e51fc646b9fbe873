"""What the address of Redis says of the way there: a finding of the doctor.

Parts of all streams, notices and the password travel to Redis. `rediss://` encrypts them and checks
the server's certificate; without it whoever is on the way reads and changes them. Redis itself is
not connected to.
"""

import asyncio
import socket
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from api.http.client_address import Address, parse_address
from api.operations.report import Finding

_RESOLVE_SECONDS: Final = 5.0  # a name server that does not answer
# As redis-py reads them, in any case.
_NO: Final = frozenset({"0", "f", "false", "n", "no"})
_TLS: Final = "rediss:// encrypts, and checks the server's certificate"


async def redis_finding(url: str) -> Finding:
    """Judge an address, which may hold a password: only the host is shown."""
    if not url:
        return _well("none: processes poll, and `headend api` serves what is stored")
    try:
        parts = urlsplit(url)
    except ValueError:
        return _act("redis.url is not valid")
    host = parts.hostname or "localhost"  # as redis-py
    match parts.scheme:
        case "unix":
            return _well("a socket of this machine")
        case "rediss":
            return await asyncio.to_thread(_tls, parts, host)
        case "redis":
            return await _plain(host)
        case _:
            return _act("redis.url is not valid: redis://, rediss:// or unix:// is expected")


def _tls(parts: SplitResult, host: str) -> Finding:
    options = {name: values[0].lower() for name, values in parse_qs(parts.query).items()}
    if options.get("ssl_cert_reqs", "required") != "required":
        return _act("redis.url has ssl_cert_reqs: any server is taken for Redis; leave it out")
    if options.get("ssl_check_hostname", "true") in _NO:
        return _act("redis.url has ssl_check_hostname: any certificate will do; leave it out")
    for path in parse_qs(parts.query).get("ssl_ca_certs", ()):
        try:
            Path(path).read_bytes()
        except OSError as error:
            return _act(f"{path} (ssl_ca_certs in redis.url) cannot be read: {error.strerror}")
    return _well(f"{host}, over TLS")


async def _plain(host: str) -> Finding:
    try:
        addresses = await _resolve(host)
    except (OSError, UnicodeError):  # TimeoutError, too; UnicodeError: a label that is too long
        return _act(f"{host} in redis.url cannot be resolved, and is reached without TLS: {_TLS}")
    if all(address.is_loopback for address in addresses):
        return _well("on this machine")
    if any(address.is_global for address in addresses):
        return _act(f"{host} is reached without TLS, over public networks: {_TLS}")
    return _well(f"{host} is reached without TLS: its network must be trusted; {_TLS}")


async def _resolve(host: str) -> list[Address]:
    async with asyncio.timeout(_RESOLVE_SECONDS):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [
        address for *_, place in found if (address := parse_address(f"[{place[0]}]")) is not None
    ]


def _well(text: str) -> Finding:
    return Finding(topic="redis", verdict="well", text=text)


def _act(text: str) -> Finding:
    return Finding(topic="redis", verdict="act", text=text)
