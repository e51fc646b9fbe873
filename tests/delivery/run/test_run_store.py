"""One run after another: their names, and which objects stay or are removed."""

import contextlib
from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_objects import RunOwner
from delivery.run.run_state import RunState
from delivery.run.run_store import newest_run, next_run_name
from storage.objects.addresses import live_state
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
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

MINUTE_US = 60_000_000


@pytest.mark.parametrize(
    ("now_us", "before", "name"),
    [
        pytest.param(NOON_US, None, RUN, id="the first"),
        pytest.param(NOON_US, "20260131T110000000", RUN, id="a later one"),
        pytest.param(NOON_US, RUN, "20260131T120000124", id="within the same millisecond"),
        pytest.param(NOON_US, "20260201T235959999", "20260202T000000000", id="a clock set back"),
    ],
)
def test_names_rise_with_every_run(now_us: int, before: str | None, name: str) -> None:
    assert next_run_name(now_us, before) == name


async def test_the_newest_run_is_the_latest_owners_whatever_the_clocks_of_hosts_show(
    tmp_path: Path,
) -> None:
    with DiskObjects(tmp_path) as disk:
        assert await newest_run(disk, HASH) is None
        named = (("20260131T120000000", 2), ("20260131T115900000", 2), ("20260131T130000000", 1))
        for run, generation in named:
            state = RunState(generation=generation)
            await disk.put(live_state(HASH, run), msgspec.json.encode(state))
        newest = await newest_run(disk, HASH)
        assert newest is not None
        assert (newest.run, newest.state.generation) == named[0]


async def run_of(
    objects: FailingObjects, edge: CheckedEdge, number: int, *, steps: int = 2, end: bool = True
) -> str:
    now_us = NOON_US + number * MINUTE_US
    publication = await open_run(objects, edge, ManualClock(), now_us=now_us)
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    for _ in range(steps):
        await append_all(publication, maker.step())
    if not steps:
        await append_all(publication, maker.step()[:1])
    if end:
        await publication.finish()
    return publication.run


def runs(objects: FailingObjects) -> list[str]:
    return sorted(
        {path.name for path in objects.disk.path(f"live/{HASH}").iterdir() if path.is_dir()}
    )


async def test_the_run_before_stays_and_older_ones_go(tmp_path: Path) -> None:
    objects = FailingObjects(DiskObjects(tmp_path))
    edge = CheckedEdge(objects.disk)
    names = [await run_of(objects, edge, number) for number in range(4)]
    assert runs(objects) == names[2:]
    assert {one.uri.split("/")[0] for one in variants(objects.disk).variants} == {names[3]}
    assert on_disk(objects.disk, "720p", names[2]).ended
    assert edge.local_playlist(f"live/{HASH}/{names[0]}/720p/index.m3u8") is None
    assert edge.local_playlist(f"live/{HASH}/{names[2]}/720p/index.m3u8") is not None


async def test_until_the_new_run_has_a_step_viewers_are_led_to_the_old_one(tmp_path: Path) -> None:
    objects = FailingObjects(DiskObjects(tmp_path))
    edge = CheckedEdge(objects.disk)
    first = await run_of(objects, edge, 0)
    # Two attempts without any step, one of which was not even ended.
    await run_of(objects, edge, 1, steps=0)
    await run_of(objects, edge, 2, steps=0, end=False)
    await open_run(objects, edge, ManualClock(), now_us=NOON_US + 3 * MINUTE_US)
    assert runs(objects) == [first]
    assert on_disk(objects.disk, "audio", first).ended
    assert variants(objects.disk).variants[0].uri.startswith(first)


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("resumed", [False, True])
async def test_a_run_of_which_only_a_lost_edge_had_media_leaves_nothing(
    tmp_path: Path, fenced: bool, resumed: bool
) -> None:
    """Viewers of the run before still have that, until the next one has a step."""
    objects = FailingObjects(DiskObjects(tmp_path))
    edge = CheckedEdge(objects.disk)
    before = await run_of(objects, edge, 0)
    owners = [RunOwner(generation=number, fenced=fenced) for number in (1, 2)]
    now_us = NOON_US + MINUTE_US
    lost = await open_run(objects, MemoryEdge(), ManualClock(), now_us=now_us, owner=owners[0])
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(lost, maker)
    for report in maker.step():
        await lost.append(report)
    assert lost.is_playable
    assert set(runs(objects)) == {before, lost.run}
    if resumed:
        resuming = resume_run(objects, edge, ManualClock(), now_us=now_us, owner=owners[1])
        assert await resuming is None
        assert runs(objects) == [before]
    following = await open_run(
        objects, edge, ManualClock(), now_us=now_us + MINUTE_US, owner=owners[1]
    )
    assert runs(objects) == [before]
    assert variants(objects.disk).variants[0].uri.startswith(before)
    assert on_disk(objects.disk, "720p", before).ended
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(following, maker)
    await append_all(following, maker.step())
    assert variants(objects.disk).variants[0].uri.startswith(following.run)


async def test_a_run_that_was_cut_off_is_ended_when_the_next_begins(tmp_path: Path) -> None:
    objects = FailingObjects(DiskObjects(tmp_path))
    edge = CheckedEdge(objects.disk)
    first = await run_of(objects, edge, 0, end=False)
    assert not on_disk(objects.disk, "720p", first).ended
    await open_run(objects, edge, ManualClock(), now_us=NOON_US + MINUTE_US)
    for name in ("720p", "360p", "audio"):
        assert on_disk(objects.disk, name, first).ended


async def test_viewers_are_never_led_astray_between_two_runs(tmp_path: Path) -> None:
    """The second run is killed at any of its first writes, and a third one begins."""

    for writes in range(24):
        disk = DiskObjects(tmp_path / str(writes))
        edge = CheckedEdge(disk)
        await run_of(FailingObjects(disk), edge, 0)
        with contextlib.suppress(Killed):
            await run_of(FailingObjects(disk, writes=writes), edge, 1, end=False)
        await open_run(disk, CheckedEdge(disk), ManualClock(), now_us=NOON_US + 2 * MINUTE_US)
        for path in disk.root.rglob("index.m3u8"):
            check_named_addresses(disk, path.relative_to(disk.root).as_posix(), path.read_text())
        assert variants(disk).variants
        disk.close()


async def test_other_things_of_the_stream_are_left_alone(tmp_path: Path) -> None:
    objects = FailingObjects(DiskObjects(tmp_path))
    edge = CheckedEdge(objects.disk)
    await objects.put(f"live/{HASH}/poster/720p.jpg", b"a picture")
    await objects.put("live/other0000000/index.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n")
    for number in range(3):
        await run_of(objects, edge, number)
    assert await objects.get(f"live/{HASH}/poster/720p.jpg") == b"a picture"
    assert await objects.stat("live/other0000000/index.m3u8") is not None
