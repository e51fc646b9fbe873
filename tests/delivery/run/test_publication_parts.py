"""The part target of a run: its source's own, also after a restart, by the rules of parts."""

from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.publication import Publication
from media.hls.segment import Part
from media.ticks import VIDEO_SCALE
from storage.objects.disk import DiskObjects
from tests.support.hls.playlist_rules import check_playlist
from tests.support.hls.strict_m3u8 import MediaText, read_playlist
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    NOON_US,
    RUN,
    TOP,
    ReportMaker,
    append_all,
    open_run,
    resume_run,
)

HALF, QUARTER = VIDEO_SCALE // 2, VIDEO_SCALE // 4
NAMES = ("720p", "audio")


def texts(edge: MemoryEdge, faults: list[str]) -> list[MediaText]:
    """Return the low-latency playlists, and add the faults of the standard that they have."""
    found: list[MediaText] = []
    for name in NAMES:
        address = f"live/{HASH}/{RUN}/{name}/index.m3u8"
        playlist = edge.local_playlist(address, low_latency=True)
        assert playlist is not None

        def report(what: str, section: str) -> None:
            faults.append(f"{section}: {what}")

        text = read_playlist(playlist.body, report)
        assert isinstance(text, MediaText)
        check_playlist(text, low=True, report=report)
        found.append(text)
    return found


async def begin(publication: Publication, maker: ReportMaker, part: int) -> None:
    wall_us = NOON_US + 2_000_000 * maker.sequence
    await publication.prepare(maker.epoch, maker.renditions, wall_us, part=part)
    await append_all(publication, maker.begin())


async def source(
    publication: Publication, edge: MemoryEdge, maker: ReportMaker, part: int, steps: int
) -> list[str]:
    """Publish a source with parts of `part` ticks; return the faults of all its playlists."""
    faults: list[str] = []
    await begin(publication, maker, part)
    for number in range(steps):
        for each in maker.step(part=part, discontinuity=maker.epoch > 0 and number == 0):
            await append_all(publication, [each])
            if publication.next_sequence:
                texts(edge, faults)
    maker.epoch += 1
    return faults


def targets(edge: MemoryEdge) -> list[tuple[Fraction | None, Fraction | None]]:
    """Return PART-TARGET and PART-HOLD-BACK of each rendition, in seconds."""
    return [
        (text.part_target, text.control.part_hold_back if text.control is not None else None)
        for text in texts(edge, [])
    ]


def of(seconds: str) -> list[tuple[Fraction, Fraction]]:
    return [(Fraction(seconds), 3 * Fraction(seconds))] * len(NAMES)


@pytest.mark.parametrize(("part", "seconds"), [(QUARTER, "0.25"), (HALF, "0.5"), (60_030, "0.667")])
async def test_a_resumed_run_has_the_part_target_that_its_viewers_saw(
    tmp_path: Path, part: int, seconds: str
) -> None:
    disk, edge, clock = DiskObjects(tmp_path), MemoryEdge(), ManualClock()
    publication = await open_run(disk, edge, clock)
    await source(publication, edge, ReportMaker(TOP), part, 3)
    before = targets(edge)
    await publication.suspend()
    again = MemoryEdge()
    resumed = await resume_run(disk, again, clock)
    assert resumed is not None
    assert targets(again) == before  # from the first moment on
    maker = ReportMaker.continuing(resumed, salt="second")
    assert await source(resumed, again, maker, part, 3) == []
    assert targets(again) == before
    assert before == of(seconds)


async def test_a_resumed_run_takes_another_part_target_at_once(tmp_path: Path) -> None:
    """The setting was changed meanwhile: no part with the old one is listed any more."""
    disk, edge, clock = DiskObjects(tmp_path), MemoryEdge(), ManualClock()
    publication = await open_run(disk, edge, clock)
    await source(publication, edge, ReportMaker(TOP), HALF, 3)
    await publication.suspend()
    again = MemoryEdge()
    resumed = await resume_run(disk, again, clock)
    assert resumed is not None
    maker = ReportMaker.continuing(resumed, salt="second")
    assert await source(resumed, again, maker, QUARTER, 3) == []
    assert targets(again) == of("0.25")


async def test_a_run_without_a_stored_part_target_is_resumed(tmp_path: Path) -> None:
    disk, edge, clock = DiskObjects(tmp_path), MemoryEdge(), ManualClock()
    publication = await open_run(disk, edge, clock)
    await source(publication, edge, ReportMaker(TOP), QUARTER, 3)
    await publication.suspend()
    state = tmp_path / "live" / HASH / RUN / "state.json"
    text = state.read_text()
    assert '"part_target":22500' in text
    state.write_text(text.replace('"part_target":22500', '"of":0'))  # of version 0.2
    again = MemoryEdge()
    resumed = await resume_run(disk, again, clock)
    assert resumed is not None
    assert targets(again) == of("0.5")
    maker = ReportMaker.continuing(resumed, salt="second")
    assert await source(resumed, again, maker, QUARTER, 1) == []
    assert targets(again) == of("0.25")


async def test_the_part_target_shrinks_once_longer_parts_have_left(tmp_path: Path) -> None:
    disk, edge, clock = DiskObjects(tmp_path), MemoryEdge(), ManualClock()
    publication = await open_run(disk, edge, clock)
    maker = ReportMaker(TOP)
    await source(publication, edge, maker, HALF, 3)
    assert targets(edge) == of("0.5")
    faults = await source(publication, edge, maker, QUARTER, 1)
    assert targets(edge) == of("0.5")
    # Parts are listed for three target durations: until then one of both lengths breaks a rule.
    assert all("less than 85 %" in fault for fault in faults)
    await source(publication, edge, maker, QUARTER, 6)
    assert targets(edge) == of("0.25")
    assert await source(publication, edge, maker, QUARTER, 4) == []
    # A longer target is announced with its first part.
    await begin(publication, maker, HALF)
    await append_all(publication, maker.step(part=HALF, discontinuity=True))
    assert targets(edge) == of("0.5")


async def test_all_renditions_announce_the_same_part_target(tmp_path: Path) -> None:
    disk, edge, clock = DiskObjects(tmp_path), MemoryEdge(), ManualClock()
    publication = await open_run(disk, edge, clock)
    maker = ReportMaker(TOP)
    # Sound divides a segment otherwise: its parts are shorter than the target.
    for part, steps in ((HALF, 3), (HALF * 24 // 25, 8)):
        await begin(publication, maker, part)
        for number in range(steps):
            for each in maker.step(part=part, discontinuity=maker.epoch > 0 and number == 0):
                if isinstance(each, Part) and each.rendition == "audio":
                    each = msgspec.structs.replace(each, duration=each.duration * 24 // 25)
                await append_all(publication, [each])
            assert len(set(targets(edge))) == 1
        maker.epoch += 1
    assert targets(edge) == of("0.48")
