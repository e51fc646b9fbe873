"""The recording of a real engine's output, of which a rung was shed for most of the time."""

import subprocess
from pathlib import Path

import pytest

from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import Ladder, Rendition
from tests.support.e2e.publishers import tool
from tests.support.engine.engine_process import EngineOutput, begin, run_with_pauses
from tests.support.engine.sources import source_of
from tests.support.storage.engine_reports import NOON_US, append_all
from tests.support.storage.recorded_run import run_recorder
from tests.support.transcode.recordings import STEP, staircase
from transcode.protocol.messages import EngineOrder, Finish, LeaveOut

_RUNGS = tuple(
    Rendition(name=name, width=width, height=height, rate=rate, source_size=name == "720p")
    for name, width, height, rate in (
        ("720p", 320, 180, 900_000),
        ("480p", 212, 120, 500_000),
        ("360p", 160, 90, 300_000),
    )
)
_STEPS = 4
_FRAMES = 25 * STEP


@pytest.fixture
def shed(tmp_path: Path) -> EngineOutput:
    """480p is off from the middle of the second of four segments on."""
    source = source_of(staircase(tmp_path / "shed.flv", steps=_STEPS))
    orders: list[EngineOrder] = [begin(source, ladder=Ladder(_RUNGS)), *source.packets, Finish()]
    middle = orders.index(source.pictures[_FRAMES + _FRAMES // 2])
    # By then the encoders have what came before.
    return run_with_pauses(orders[:middle], [LeaveOut(off=("480p",)), *orders[middle:]], pause=1.0)


def pictures(playlist: Path) -> int:
    """Return how many pictures ffmpeg decodes of a playlist, without any error."""
    done = subprocess.run(
        [
            tool("ffmpeg"), "-v", "error", "-xerror", "-allowed_extensions", "ALL",
            "-i", str(playlist), "-map", "0:v", "-f", "framemd5", "-",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return sum(not line.startswith("#") for line in done.stdout.splitlines())


async def test_a_recording_offers_what_is_whole_and_plays_it_in_whole(
    shed: EngineOutput, tmp_path: Path
) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        await publication.prepare(0, _RUNGS, NOON_US, reused="720p")
        media = (InitSection, SegmentStart, GapStart, Part, Segment)
        await append_all(publication, [each for each in shed.reports if isinstance(each, media)])
        await publication.finish()
        await fixture.release()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        folder = fixture.folder(video)
        variants = fixture.variants(video).variants
        assert [variant.height for variant in variants] == [180, 90]
        assert {rung.height for rung in (await fixture.whole(video)).rungs} == {180, 90}
        for name in ("720p", "360p"):
            assert pictures(folder / name / "index.m3u8") == _STEPS * _FRAMES
        # Its own playlist lacks only the segment in which it was shed: clips are made from it.
        segments = fixture.playlist(video, "480p").segments
        assert [segment.gap for segment in segments] == [False, True, False, False]
        for number in (2, 3):
            lent = (folder / "360p" / f"{number}.m4s").read_bytes()
            assert (folder / "480p" / f"{number}.m4s").read_bytes() == lent
