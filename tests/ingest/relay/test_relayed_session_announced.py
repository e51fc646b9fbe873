"""Pictures that encoders announce to a host that does not own their stream."""

import asyncio

import pytest

from media.packet import MediaPacket
from tests.ingest.stream.test_live_stream import AUDIO, VIDEO
from tests.support.ingest.relay_hosts import Encoder, installation
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY
from tests.support.ingest.virtual_clock import virtual_sockets


async def send_sound(encoder: Encoder, tenths: int) -> None:
    for _ in range(tenths):
        assert encoder.session is not None
        now = asyncio.get_running_loop().time()
        packet = MediaPacket(track=AUDIO, dts=round(now * 1000), pts=0, key=True, data=b"s")
        encoder.session.receive_packets([packet], now)
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("fails", [False, True], ids=["one owner", "an owner that is killed"])
@virtual_sockets
async def test_every_owner_waits_for_a_picture_that_was_announced_elsewhere(fails: bool) -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)  # which sends nothing
        encoder = await other.attach(PRIMARY)
        assert encoder.session is not None
        encoder.session.picture_announced()
        encoder.session.receive_track(AUDIO, asyncio.get_running_loop().time())
        await send_sound(encoder, 30)
        if fails:
            owner.kill()
            owner = other
        await send_sound(encoder, 60)
        assert owner.ports.sinks == []
        now = asyncio.get_running_loop().time()
        encoder.session.receive_track(VIDEO, now)
        packet = MediaPacket(track=VIDEO, dts=round(now * 1000), pts=0, key=True, data=b"p")
        encoder.session.receive_packets([packet], now)
        await send_sound(encoder, 5)
        (sink,) = owner.ports.sinks
        assert sink.recorded[0] == "begin VideoTrack AudioTrack"
