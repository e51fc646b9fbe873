"""Two listeners of one installation: encoders publish to a host that does not own their stream."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

from headend.install.relay_key import relay_tls
from ingest.server.listener import OtherHosts
from media.stream_keys import StreamKey
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    BAD_NAME,
    STOPPED,
    LoopbackListener,
    LoopbackPorts,
    Wire,
    loopback_listener,
    real_time,
)
from tests.support.ingest.relay_hosts import SECRET
from tests.support.ingest.shared_ownership import OwnershipTable
from tests.support.waiting import until


@asynccontextmanager
async def one_host(
    table: OwnershipTable, ports: LoopbackPorts
) -> AsyncGenerator[LoopbackListener, None]:
    sock, tls = socket.socket(), relay_tls(SECRET)
    sock.bind(("127.0.0.1", 0))
    ownership = table.host(f"127.0.0.1:{sock.getsockname()[1]}")
    hosts = OtherHosts(ownership=ownership, client_tls=tls.client, accepts=(sock, tls.server))
    async with loopback_listener(ports, hosts=hosts) as listener:
        yield listener


class TwoHosts(NamedTuple):
    """Two hosts with the same streams, and their ports; the first host owns the stream."""

    here: LoopbackPorts
    owner: LoopbackListener
    there: LoopbackPorts
    other: LoopbackListener
    table: OwnershipTable


@asynccontextmanager
async def two_hosts() -> AsyncGenerator[TwoHosts, None]:
    table, owner_ports, other_ports = OwnershipTable(), LoopbackPorts(), LoopbackPorts()
    other_ports.key = owner_ports.key
    async with one_host(table, other_ports) as other, one_host(table, owner_ports) as owner:
        primary = await owner.publishing(owner_ports)
        yield TwoHosts(owner_ports, owner, other_ports, other, table)
        await primary.close()


@real_time
async def test_an_encoder_publishes_through_a_host_that_does_not_own_its_stream(loop: str) -> None:
    async with two_hosts() as hosts:
        backup = await hosts.other.standby(hosts.there)
        await until(lambda: len(hosts.here.states[-1].sending) == 2)
        packets = len(hosts.here.packets)
        assert hosts.other.counters.publishers == 1
        assert hosts.there.runs == []
        await backup.close()
        await until(lambda: len(hosts.here.states[-1].sending) == 1)
        assert len(hosts.here.packets) == packets  # of the primary, which is on air


@real_time
async def test_a_slot_that_is_taken_at_the_owner_is_refused(loop: str) -> None:
    async def keep_sending(wire: Wire) -> None:
        while True:
            await wire.send(rtmp_peer.MEDIA)
            await asyncio.sleep(0.2)

    async with two_hosts() as hosts:
        backup = await hosts.other.standby(hosts.there)
        late = await hosts.owner.dial()
        await late.send(hosts.here.opening("live-backup-1"))
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(keep_sending(backup))
            assert await late.status() == BAD_NAME
            sending.cancel()
        await late.read_to_end()
        await late.close()
        await backup.close()


@real_time
async def test_a_revoked_key_s_encoder_is_stopped_with_the_reason_of_the_owner(loop: str) -> None:
    async with two_hosts() as hosts:
        backup = await hosts.other.standby(hosts.there)
        streams = hosts.owner.listener.streams
        assert await streams.disconnect(1, "another", "the stream key was changed") == 2
        assert await backup.status(2) == STOPPED
        assert b"the stream key was changed" in await backup.read_to_end()
        await backup.close()


@real_time
async def test_a_key_that_is_revoked_while_its_publisher_is_relayed_is_refused(loop: str) -> None:
    async with two_hosts() as hosts:
        hosts.table.answering.clear()
        late = await hosts.other.dial()
        await late.send(hosts.there.opening("live-backup-1"))
        await until(lambda: len(hosts.table.claims) == 2)
        hosts.there.key = StreamKey.new(hosts.there.key.hash)
        hosts.table.answering.set()
        assert await late.status() == BAD_NAME
        await late.read_to_end()
        await late.close()


@real_time
async def test_an_owner_that_stops_leaves_its_relayed_encoders_on_air_elsewhere(loop: str) -> None:
    table, owner_ports, other_ports = OwnershipTable(), LoopbackPorts(), LoopbackPorts()
    other_ports.key = owner_ports.key
    async with one_host(table, other_ports) as other:
        async with one_host(table, owner_ports) as owner:
            primary = await owner.publishing(owner_ports)
            backup = await other.standby(other_ports)
            await until(lambda: len(owner_ports.states[-1].sending) == 2)
        await until(lambda: bool(other_ports.packets))
        assert other.listener.streams.generations == {1: 2}
        assert "end" not in owner_ports.runs[-1].calls
        await backup.close()
        await primary.close()
