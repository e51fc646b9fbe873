"""Opens the links to the hosts that own other streams: one to each host, on demand.

An owner that refuses connections at an address where it accepted one before has ended: its streams
may be claimed at once. An owner that does not answer may be alive or dead; the claim of a stream
decides that.
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from typing import Any, Final
from weakref import WeakValueDictionary

from ingest.relay.link import CLOSED_HERE, RelayLinks
from ingest.relay.media_ring import RINGS_BYTES, RingMemory
from ingest.relay.owner_link import OwnerGone, OwnerLink, OwnerUnreachable
from ingest.relay.relayed_session import RelayedSession
from ingest.stream.ports import Grant, Ownership
from ingest.stream.registry import LiveStreams, RenewGrant
from ingest.stream.slot_session import ConnectedPublisher, PublisherSession
from media.loop_lag import LoopLag

log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 1.0  # hosts are near, and a lost packet is repeated after a second
# A frozen host accepts connections and does not answer.
_HANDSHAKE_SECONDS: Final = 2.0
_SHUTDOWN_SECONDS: Final = 2.0
_DROP_LOG_SECONDS: Final = 60.0


class RelayClient(RelayLinks):
    """The links to other hosts, and the publishers that are relayed; a `StreamRelay`.

    `tls` accepts the hosts of this installation alone. `lag` is that of the event loop.
    `memory_bytes` bounds what is kept of all these publishers.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        tasks: asyncio.TaskGroup,
        lag: LoopLag,
        memory_bytes: int = RINGS_BYTES,
    ) -> None:
        super().__init__(tasks, lag)
        self.memory = RingMemory(memory_bytes, self._log_drop)
        self._drop_logged = -_DROP_LOG_SECONDS
        self._tls = tls
        self._links: dict[str, OwnerLink] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._accepted: set[str] = set()  # addresses that accepted a connection
        self._failing: set[str] = set()  # addresses whose newest attempt failed

    async def attach(
        self,
        streams: LiveStreams,
        grant: Grant,
        publisher: ConnectedPublisher,
        owner: Ownership,
        renew: RenewGrant | None,
    ) -> PublisherSession:
        """Begin a `RelayedSession`, which lasts as long as the publisher (see `StreamRelay`)."""
        return await RelayedSession(self, streams, grant, publisher, owner, renew).begin()

    @property
    def encoders(self) -> int:
        """How many encoders this host relays now."""
        return sum(each.encoders for each in self._links.values())

    # -- what sessions need -----------------------------------------------------------------------

    async def connect(self, address: str) -> OwnerLink:
        """Return the link to an owner, and open it first if there is none.

        Raises:
            OwnerUnreachable: it cannot be opened.
            OwnerGone: the owner's process has ended.
        """
        async with self._locks.setdefault(address, asyncio.Lock()):
            owner = self._links.get(address)
            return await self._open(address) if owner is None else owner

    async def _open(self, address: str) -> OwnerLink:
        owner = OwnerLink(address, self.lag, self._link_ended, self.counters)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                sock = await _connected_socket(address)
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await asyncio.get_running_loop().create_connection(
                    lambda: owner.link,
                    sock=sock,
                    ssl=self._tls,
                    server_hostname="",
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
                await owner.wait_ready()
        except OwnerUnreachable as error:
            self._log_failure(address, str(error))
            raise
        except (OSError, ValueError, OverflowError, TimeoutError) as error:
            refused = isinstance(error, ConnectionRefusedError)
            kind = OwnerGone if refused and address in self._accepted else OwnerUnreachable
            cause = str(error) or "it does not answer"
            self._log_failure(address, cause)
            raise kind(cause) from error
        finally:
            if not owner.is_ready:
                owner.link.drop("not opened")
        log.info("link up", extra={"peer": address})
        self._accepted.add(address)
        self._failing.discard(address)
        self._links[address] = owner
        self.add(owner.link)
        return owner

    def _log_drop(self) -> None:
        """Log that media were dropped for want of memory, unless that was logged recently."""
        now = asyncio.get_running_loop().time()
        if now - self._drop_logged >= _DROP_LOG_SECONDS:
            self._drop_logged = now
            log.warning("relay memory full", extra={"bytes": self.memory.size_bytes})

    def _log_failure(self, address: str, cause: str) -> None:
        """Log that an owner was not reached, once until it is reached again."""
        if address not in self._failing:
            self._failing.add(address)
            log.warning("owner not reached", extra={"peer": address, "cause": cause})

    def _link_ended(self, owner: OwnerLink, cause: str) -> None:
        address = owner.link.peer
        self.links.discard(owner.link)
        if self._links.get(address) is owner:
            del self._links[address]
            level = logging.INFO if cause == CLOSED_HERE else logging.WARNING
            log.log(level, "link down", extra={"peer": address, "cause": cause})


async def _connected_socket(address: str) -> socket.socket:
    """Connect to `host:port` or `[host]:port`."""
    loop = asyncio.get_running_loop()
    host, _, port = address.rpartition(":")
    try:
        number = ipaddress.ip_address(host.strip("[]"))
        family = socket.AF_INET6 if number.version == 6 else socket.AF_INET
        name: Any = (str(number), int(port))
    except ValueError:
        addresses = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        family, _, _, _, name = addresses[0]
    sock = socket.socket(family)
    try:
        sock.setblocking(False)
        # asyncio does this for sockets that name their protocol.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(sock, name)
    except BaseException:
        sock.close()
        raise
    return sock
