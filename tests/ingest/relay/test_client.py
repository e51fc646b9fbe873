"""Links to owners: one per owner, opened on demand; unreachable owners and those that are gone."""

import asyncio

import pytest

from ingest.relay.owner_link import OwnerGone, OwnerUnreachable
from tests.support.free_ports import free_port
from tests.support.ingest.relay_hosts import installation
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY, SECOND
from tests.support.ingest.virtual_clock import virtual_sockets


@virtual_sockets
async def test_all_sessions_at_an_owner_share_one_link_which_ends_with_them() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(PRIMARY)
        async with asyncio.TaskGroup() as tasks:  # both at once
            for slot in (BACKUP, SECOND):
                tasks.create_task(other.publish(slot))
        assert len(other.client.links) == len(owner.relay.links) == 1
        for encoder in other.encoders:
            encoder.leave()
        await asyncio.sleep(0.5)
        assert other.links == owner.links == []


@virtual_sockets
async def test_hosts_relay_to_each_other() -> None:
    async with installation() as hosts:
        one, two = await hosts.start(), await hosts.start()
        await one.attach(PRIMARY)
        await two.attach(PRIMARY, stream=2, hash="Zb3dEf6hIj9l")
        await two.publish(BACKUP)
        await one.publish(BACKUP, stream=2, hash="Zb3dEf6hIj9l")
        await asyncio.sleep(4)
        assert one.ports.states[-1].on_air == two.ports.states[-1].on_air == BACKUP


@virtual_sockets
async def test_only_an_owner_that_was_connected_before_counts_as_gone() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        with pytest.raises(OwnerUnreachable) as nothing:
            await other.client.connect(f"127.0.0.1:{free_port()}")
        assert not isinstance(nothing.value, OwnerGone)
        link = await other.client.connect(owner.address)
        assert await other.client.connect(owner.address) is link
        owner.kill()
        await asyncio.sleep(0.1)
        with pytest.raises(OwnerGone):
            await other.client.connect(owner.address)


@virtual_sockets
async def test_an_owner_that_answers_nothing_is_unreachable_after_two_seconds() -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(cable=True), await hosts.start()
        assert owner.cable is not None
        await asyncio.sleep(0.1)
        owner.cable.cut()
        clock = asyncio.get_running_loop().time
        began = clock()
        with pytest.raises(OwnerUnreachable):
            await other.client.connect(owner.address)
        assert clock() - began == pytest.approx(2.0, abs=0.5)
        assert other.links == []


@virtual_sockets
async def test_hosts_with_different_secrets_log_one_line_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with installation() as hosts:
        owner, stranger = await hosts.start(), await hosts.start(b"another secret, as long")
        for _ in range(3):
            with pytest.raises(OwnerUnreachable):
                await stranger.client.connect(owner.address)
            await asyncio.sleep(1)
        lines = [record.message for record in caplog.records if record.name != "security"]
        assert sorted(lines) == ["host refused", "owner not reached"]
        await asyncio.sleep(60)
        with pytest.raises(OwnerUnreachable):
            await stranger.client.connect(owner.address)
        await asyncio.sleep(1)
        lines = [record.message for record in caplog.records if record.name != "security"]
        assert lines.count("host refused") == 2


@pytest.mark.parametrize("address", ["nonsense", "[::1]:no", "127.0.0.1:99999999", ":"])
@virtual_sockets
async def test_an_invalid_address_is_unreachable(address: str) -> None:
    async with installation() as hosts:
        other = await hosts.start()
        with pytest.raises(OwnerUnreachable):
            await other.client.connect(address)
