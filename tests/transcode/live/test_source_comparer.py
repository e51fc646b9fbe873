"""Two sources, compared by a real engine in its box."""

import os
import signal

import pytest

from media.packet import MediaPacket
from media.source_comparison import SourceComparison
from media.track import AudioTrack
from tests.support.engine.programmes import CodedSound, programme
from transcode.live.source_comparer import EngineComparer, open_comparer

SOUND = CodedSound(programme(9, seed=2))
NONE = SourceComparison(offset=None, reason="no sound")
LATER = CodedSound(programme(9, seed=2), kbit=64, start_ms=1371)


def add(comparer: EngineComparer, number: int, sound: CodedSound) -> None:
    comparer.begin(number, sound.track)
    comparer.add(number, packets(sound.track, sound))


def packets(track: AudioTrack, sound: CodedSound) -> list[MediaPacket]:
    return [
        MediaPacket(track=track, dts=pts, pts=pts, key=True, data=data)
        for pts, data in sound.packets
    ]


async def test_the_offset_is_that_of_their_times() -> None:
    async with open_comparer("Ab3") as comparer:
        add(comparer, 0, SOUND)
        add(comparer, 3, LATER)
        found = await comparer.compare(0, 3, seconds=5, near=None)
        assert found is not None
        assert found.offset == pytest.approx(1.371, abs=0.002)
        assert found.reason is None
        found = await comparer.compare(3, 0, seconds=3, near=-1.3)
        assert found is not None
        assert found.offset == pytest.approx(-1.371, abs=0.002)
        comparer.remove(3)
        assert await comparer.compare(0, 3, seconds=3, near=0.0) == NONE
        comparer.begin(0, None)
        comparer.add(0, packets(SOUND.track, SOUND))
        assert await comparer.compare(0, 0, seconds=3, near=0.0) == NONE


async def test_an_engine_that_has_ended_is_lost() -> None:
    async with open_comparer("Ab3") as comparer:
        add(comparer, 0, SOUND)
        await comparer.compare(0, 0, seconds=3, near=0.0)
        os.kill(comparer.pid, signal.SIGKILL)
        assert await comparer.compare(0, 0, seconds=3, near=0.0) is None


async def test_an_engine_that_does_not_answer_is_lost() -> None:
    async with open_comparer("Ab3", answer_seconds=0.3) as comparer:
        os.kill(comparer.pid, signal.SIGSTOP)
        assert await comparer.compare(0, 0, seconds=3, near=0.0) is None


async def test_sound_that_nobody_asks_for_is_bounded() -> None:
    async with open_comparer("Ab3") as comparer:
        comparer.begin(0, SOUND.track)
        packet = packets(SOUND.track, SOUND)[0]
        large = [MediaPacket(track=packet.track, dts=n, pts=n, key=True, data=bytes(1 << 20))
                 for n in range(40)]  # fmt: skip
        for each in large:
            comparer.add(0, [each])
            assert comparer.waiting_bytes <= 7 << 20
