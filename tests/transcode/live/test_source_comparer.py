"""Two sources, compared by a real engine in its box."""

import os
import signal

import numpy as np
import pytest

from media.packet import MediaPacket
from media.source_comparison import SourceComparison
from media.track import AudioTrack
from tests.support.engine.programmes import RATE, CodedSound, programme
from tests.support.engine.shown_pictures import CodedPictures, scenes
from transcode.live.source_comparer import EngineComparer, open_comparer

SOUND = CodedSound(programme(9, seed=2))
SHOWN = CodedPictures(scenes(3, seed=1))
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


def pictures(shown: CodedPictures) -> list[MediaPacket]:
    return [
        MediaPacket(track=shown.track, dts=each.dts, pts=each.pts, key=each.key, data=each.data)
        for each in shown.packets
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


async def test_what_is_judged_is_found_in_a_second() -> None:
    silent = CodedSound(np.zeros(9 * RATE, np.float32))
    async with open_comparer("Ab3") as comparer:
        comparer.begin(0, silent.track, SHOWN.track, judged=True)
        comparer.begin(3, SOUND.track, SHOWN.track, judged=True)
        comparer.add(0, packets(silent.track, silent))
        comparer.add(3, packets(SOUND.track, SOUND))
        for number in (0, 3):
            comparer.add(number, pictures(SHOWN))
        found = await comparer.judge({0: 0.0, 3: None, 9: 0.0})
        assert found is not None
        assert {number: [each.kind for each in faults] for number, faults in found.items()} == {
            0: ["silent"]
        }
        (fault,) = found[0]
        assert fault.verdict == "unknown"
        assert 8 < fault.seconds < 10
        # It has no sound and no pictures of what is not to be judged.
        comparer.begin(0, silent.track)
        comparer.add(0, packets(silent.track, silent))
        assert await comparer.judge({0: 0.0}) == {}


async def test_an_engine_that_has_ended_is_lost() -> None:
    async with open_comparer("Ab3") as comparer:
        add(comparer, 0, SOUND)
        await comparer.compare(0, 0, seconds=3, near=0.0)
        os.kill(comparer.pid, signal.SIGKILL)
        assert await comparer.compare(0, 0, seconds=3, near=0.0) is None
        assert await comparer.judge({0: 0.0}) is None


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


async def test_pictures_that_nobody_asks_for_are_bounded_and_go_on_at_a_keyframe() -> None:
    async with open_comparer("Ab3") as comparer:
        comparer.begin(0, None, SHOWN.track, judged=True)
        for number in range(40):
            packet = MediaPacket(
                track=SHOWN.track, dts=number, pts=number, key=number % 4 == 0, data=bytes(1 << 20)
            )
            comparer.add(0, [packet])
            assert comparer.waiting_bytes <= 13 << 20
        assert comparer.waiting_bytes > 0
        assert await comparer.judge({0: 0.0}) == {}
