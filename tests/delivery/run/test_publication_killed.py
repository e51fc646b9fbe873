"""A process that is killed at any write, and the one that resumes its run.

The disk stops taking writes at the n-th one, for every n: what is on it then is what a killed
process leaves. (A write that was under way leaves a temporary: see the object store's tests.)
"""

from pathlib import Path

import pytest

from delivery.run.publication import Publication
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    NOON_US,
    RUN,
    TOP,
    TWO,
    CheckedEdge,
    FailingObjects,
    Killed,
    ReportMaker,
    append_all,
    begin_epoch,
    check_named_addresses,
    on_disk,
    open_run,
    resume_run,
    variants,
)

NAMES = ("720p", "audio")

Shown = dict[tuple[str, int], tuple[str, bytes]]  # rendition, number: name, first bytes


async def broadcast(publication: Publication, clock: ManualClock) -> None:
    """Two sources of 9 and 17 steps, long enough for segments and an init section to be deleted."""
    maker = ReportMaker(TOP, salt="first")
    for epoch, steps in enumerate((9, 17)):
        maker.epoch = epoch
        await begin_epoch(publication, maker)
        for number in range(steps):
            await append_all(publication, maker.step(discontinuity=epoch > 0 and number == 0))
            clock.now += 2.0


async def one_life(
    folder: Path, writes: int | None
) -> tuple[FailingObjects, CheckedEdge, ManualClock]:
    """Broadcast until the disk stops."""
    objects = FailingObjects(DiskObjects(folder), writes=writes)
    edge, clock = CheckedEdge(objects.disk), ManualClock()
    try:
        publication = await open_run(objects, edge, clock)
        await broadcast(publication, clock)
    except Killed:
        pass
    return objects, edge, clock


def shown(edge: CheckedEdge, disk: DiskObjects) -> Shown:
    """Return all segments that viewers were ever shown, by rendition and Media Sequence Number.

    What only memory had when the process was killed has no bytes; its number is not used again.
    """
    segments: Shown = {}
    for texts in edge.published:
        for address, text in texts.items():
            playlist = parse(text)
            if not isinstance(playlist, MediaPlaylist):
                continue
            name = address.split("/")[-2]
            for index, segment in enumerate(playlist.segments):
                path = disk.path(f"live/{HASH}/{RUN}/{name}/{segment.uri}")
                data = path.read_bytes() if path.is_file() else b""
                first_shown = segments.setdefault(
                    (name, playlist.sequence + index), (segment.uri, data)
                )
                assert first_shown[0] == segment.uri
    return segments


def check_viewers(disk: DiskObjects) -> None:
    """Everything that any playlist on disk names is there; all renditions show the same."""
    for path in disk.root.rglob("index.m3u8"):
        address = path.relative_to(disk.root).as_posix()
        check_named_addresses(disk, address, path.read_text())


async def next_life(folder: Path, before: CheckedEdge, clock: ManualClock) -> None:
    """Resume what a killed process left, and compare with what viewers had been shown."""
    objects = FailingObjects(DiskObjects(folder))
    listed = shown(before, objects.disk)
    check_viewers(objects.disk)
    edge = CheckedEdge(objects.disk)
    publication = await resume_run(objects, edge, clock, now_us=NOON_US + 60_000_000)
    if publication is None:
        # Nothing was stored, so another run may use the same numbers for other bytes.
        assert max((number for _, number in listed), default=0) == 0
        return
    assert publication.run == RUN
    # The disk and the edge of the new process serve at once what the notes list.
    newest = f"{publication.next_sequence - 1}.m4s"
    for name in NAMES:
        text = edge.local_playlist(f"live/{HASH}/{RUN}/{name}/index.m3u8")
        assert text is not None
        assert text.body.decode().splitlines()[-1] == newest
        assert on_disk(objects.disk, name).segments[-1].uri == newest
    assert variants(objects.disk).variants[0].uri.startswith(RUN)
    maker = ReportMaker.continuing(publication, salt="second")
    last = max((number for _, number in listed), default=-1)
    assert last < publication.next_sequence <= last + 3
    lost = sum(one.gap for one in on_disk(objects.disk, "720p").segments)
    assert publication.end == 900_000 + TWO * (publication.next_sequence - lost)
    await begin_epoch(publication, maker)
    await append_all(publication, maker.step(discontinuity=True))
    await append_all(publication, maker.step())
    check_viewers(objects.disk)
    # Every number that viewers were shown still means the same segment and bytes.
    now = shown(edge, objects.disk)
    for key in listed.keys() & now.keys():
        assert listed[key] == now[key]
    lists = [on_disk(objects.disk, name) for name in NAMES]
    assert len({(one.sequence, one.discontinuities, len(one.segments)) for one in lists}) == 1
    assert lists[0].segments[-2].discontinuity
    assert variants(objects.disk).variants[0].uri.startswith(RUN)
    objects.disk.close()


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.prove)])
async def test_a_run_is_resumed_wherever_its_process_was_killed(
    tmp_path: Path, stride: int
) -> None:
    whole, _, _ = await one_life(tmp_path / "whole", None)
    folder = whole.disk.path(f"live/{HASH}/{RUN}/720p")
    assert not (folder / "0.m4s").exists()
    assert not (folder / "init-0.mp4").exists()
    resumed = 0
    for writes in range(0, whole.writes, stride):
        folder = tmp_path / str(writes)
        objects, edge, clock = await one_life(folder, writes)
        objects.disk.close()
        await next_life(folder, edge, clock)
        resumed += 1
    assert resumed == -(-whole.writes // stride) > 60 // stride


async def test_resuming_itself_may_be_killed(tmp_path: Path) -> None:
    for writes in range(4):
        folder = tmp_path / str(writes)
        objects, edge, clock = await one_life(folder, 60)
        objects.disk.close()
        with pytest.raises(Killed):
            second = FailingObjects(DiskObjects(folder), writes=writes)
            if await resume_run(second, CheckedEdge(second.disk), clock) is not None:
                raise Killed
        await next_life(folder, edge, clock)


@pytest.mark.parametrize(
    ("seconds", "resumed"),
    [pytest.param(59, True, id="within"), pytest.param(61, False, id="too late"),
     pytest.param(-5, True, id="the clock was set back")],
)  # fmt: skip
async def test_a_run_is_resumed_for_a_limited_time_only(
    tmp_path: Path, seconds: int, resumed: bool
) -> None:
    objects, _, clock = await one_life(tmp_path, None)
    # The last step was written 50 s after the run began.
    now_us = NOON_US + (50 + seconds) * 1_000_000
    found_run = await resume_run(objects, CheckedEdge(objects.disk), clock, now_us=now_us)
    assert (found_run is not None) is resumed


async def test_an_ended_run_is_not_resumed(tmp_path: Path) -> None:
    objects, edge, clock = await one_life(tmp_path, None)
    publication = await resume_run(objects, edge, clock)
    assert publication is not None
    await publication.finish()
    assert await resume_run(objects, edge, clock) is None


@pytest.mark.parametrize("harm", ["short segment", "lost segment", "empty init", "broken notes"])
async def test_a_run_that_a_power_cut_harmed_is_not_resumed(tmp_path: Path, harm: str) -> None:
    objects, edge, clock = await one_life(tmp_path, None)
    folder = objects.disk.path(f"live/{HASH}/{RUN}")
    match harm:
        case "short segment":
            (folder / "audio/25.m4s").write_bytes(b"x")
        case "lost segment":
            (folder / "720p/22.m4s").unlink()
        case "empty init":
            (folder / "720p/init-1.mp4").write_bytes(b"")
        case _:
            (folder / "state.json").write_bytes(b'{"listed": [')
    assert await resume_run(objects, edge, clock) is None
    # The next run begins nevertheless, and until it can be played no viewer is misled.
    publication = await open_run(objects, edge, clock, now_us=NOON_US + 60_000_000)
    if harm != "broken notes":
        assert not objects.disk.path(f"live/{HASH}/index.m3u8").exists()
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    await append_all(publication, maker.step())
    assert variants(objects.disk).variants[0].uri.startswith(publication.run)
