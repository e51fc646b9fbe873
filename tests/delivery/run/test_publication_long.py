"""A run with a window of many pages: what a step costs, and how it is resumed and ended."""

import contextlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from delivery.run.publication import Publication
from delivery.run.run_state import PAGE_STEPS, LiveWindow, decode_state
from delivery.run.run_store import StoredRun, read_steps
from delivery.run.stored_playlist import StoredPlaylists
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    NOON_US,
    RUN,
    TOP,
    CheckedEdge,
    FailingObjects,
    Killed,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    check_named_addresses,
    open_run,
    resume_run,
)

LONG = LiveWindow(listed_seconds=150.0, kept_seconds=154.0)  # 75 steps
NAMES = ("720p", "audio")


class StepBytesDisk(FailingObjects):
    """A disk that counts the bytes of all objects but media, by step."""

    def __init__(self, disk: DiskObjects) -> None:
        super().__init__(disk)
        self.written = 0

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        await super().put(address, data, vital=vital)
        if not address.endswith((".m4s", ".mp4")):
            self.written += len(data)


async def broadcast(
    publication: Publication, maker: ReportMaker, clock: ManualClock, steps: int
) -> None:
    for _ in range(steps):
        await append_all(publication, maker.step())
        clock.now += 2.0


async def begin_long_run(objects: FailingObjects, clock: ManualClock, steps: int) -> None:
    """Begin a run with a long window, of so many steps."""
    publication = await open_run(objects, CheckedEdge(objects.disk), clock, window=LONG)
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    await broadcast(publication, maker, clock, steps)


async def listed(objects: FailingObjects, name: str) -> MediaPlaylist:
    """Return the window of a rendition on disk, all of whose media must be there."""
    address = f"live/{HASH}/{RUN}/{name}/index.m3u8"
    text = await StoredPlaylists(objects).read(address)
    check_named_addresses(objects.disk, address, text)
    playlist = parse(text)
    assert isinstance(playlist, MediaPlaylist)
    return playlist


def uris(first: int, following: int) -> list[str]:
    return [f"{number}.m4s" for number in range(first, following)]


async def test_the_bytes_of_a_step_do_not_depend_on_the_length_of_the_window(
    tmp_path: Path,
) -> None:
    objects, clock = StepBytesDisk(DiskObjects(tmp_path)), ManualClock()
    window = LiveWindow(listed_seconds=2000.0, kept_seconds=2004.0)
    publication = await open_run(objects, CheckedEdge(objects.disk), clock, window=window)
    maker = ReportMaker(TOP)
    maker.sequence = 0
    await begin_epoch(publication, maker)
    written: list[int] = []
    for _ in range(8):
        objects.written = 0
        await broadcast(publication, maker, clock, 2 * PAGE_STEPS)
        written.append(objects.written)
    # Numbers get longer, but the list of the last 64 s does not.
    assert max(written[2:]) < 1.05 * min(written[2:])
    state = objects.disk.path(f"live/{HASH}/{RUN}/state.json").stat().st_size
    assert state < 2 * PAGE_STEPS * 150 + 2000


async def test_pages_go_with_the_media_that_they_describe(tmp_path: Path) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    await begin_long_run(objects, clock, 200)
    folder = objects.disk.path(f"live/{HASH}/{RUN}")
    media = sorted(int(path.stem) for path in (folder / "720p").glob("*.m4s"))
    pages = sorted(int(path.stem) for path in (folder / "log").iterdir())
    # 75 steps are listed, and 77 left the window within the last 154 s.
    assert media == list(range(200 - 75 - 77, 200))
    assert pages == list(range(media[0] // PAGE_STEPS, 200 // PAGE_STEPS - 1))


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.prove)])
async def test_a_long_window_is_whole_wherever_its_process_was_killed(
    tmp_path: Path, stride: int
) -> None:
    """The process is killed at the writes around those of a page, while the window slides."""
    begun = tmp_path / "begun"
    await begin_long_run(FailingObjects(DiskObjects(begun)), ManualClock(), 80)
    resumed = 0
    for more in range(0, 7 * 18, stride):
        folder, clock = tmp_path / str(more), ManualClock()
        shutil.copytree(begun, folder)
        objects = FailingObjects(DiskObjects(folder))
        viewed = CheckedEdge(objects.disk)
        publication = await resume_run(objects, viewed, clock, window=LONG)
        assert publication is not None
        maker = ReportMaker.continuing(publication, salt="first")
        await begin_epoch(publication, maker)
        objects.writes_left = more
        with contextlib.suppress(Killed):
            await broadcast(publication, maker, clock, 20)
        next_sequence = publication.next_sequence
        objects = FailingObjects(objects.disk)
        edge = CheckedEdge(objects.disk)
        again = await resume_run(objects, edge, clock, window=LONG)
        assert again is not None
        following = again.next_sequence
        assert next_sequence <= following <= next_sequence + 2
        for name in NAMES:
            playlist = await listed(objects, name)
            assert [one.uri for one in playlist.segments] == uris(playlist.sequence, following)
            # At least as much has left the playlist as before the loss of what was not stored.
            before = viewed.timeline(f"live/{HASH}/{RUN}/{name}/index.m3u8")
            assert before is not None
            assert playlist.sequence >= before.sequence
            lost = sum(one.gap for one in playlist.segments)
            assert 75 - lost <= len(playlist.segments) - lost <= 75
            assert lost <= 3
        await begin_epoch(again, ReportMaker.continuing(again, salt="second"))
        objects.disk.close()
        resumed += 1
    assert resumed == -(-7 * 18 // stride)


async def test_a_run_from_before_there_was_a_log_is_resumed_and_gets_one(tmp_path: Path) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    await begin_long_run(objects, clock, 90)
    path = objects.disk.path(f"live/{HASH}/{RUN}/state.json")
    state = decode_state(path.read_bytes())
    run = StoredRun(hash=HASH, run=RUN, state=state)
    steps = await read_steps(objects, run, 0)
    assert [step.sequence for step in steps] == list(range(90))
    older = msgspec.to_builtins(state) | {
        "form": 1,
        "listed": msgspec.to_builtins(steps[state.first :]),
        "left": msgspec.to_builtins(steps[: state.first]),
    }
    for key in ("tail", "oldest", "oldest_inits"):
        del older[key]
    path.write_text(json.dumps(older))
    await objects.disk.delete_tree(f"live/{HASH}/{RUN}/log")
    again = await resume_run(objects, CheckedEdge(objects.disk), clock, window=LONG)
    assert again is not None
    second = ReportMaker.continuing(again, salt="second")
    await begin_epoch(again, second)
    await append_all(again, second.step(discontinuity=True))
    for name in NAMES:
        playlist = await listed(objects, name)
        assert [one.uri for one in playlist.segments] == uris(playlist.sequence, 92)
        assert [one.gap for one in playlist.segments].count(True) == 1
    assert len(decode_state(path.read_bytes()).tail) < 2 * PAGE_STEPS
    await broadcast(again, second, clock, 100)
    numbers = {int(each.stem) for each in (path.parent / "720p").glob("*.m4s")}
    assert min(numbers) > 90 - 75
    assert len((await listed(objects, "audio")).segments) == 75


@pytest.mark.parametrize("number", [0, 1])
async def test_a_run_whose_log_lost_a_listed_page_is_not_resumed(
    tmp_path: Path, number: int
) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    await begin_long_run(objects, clock, 60)
    objects.disk.path(f"live/{HASH}/{RUN}/log/{number}.json").write_bytes(b"{")
    edge = CheckedEdge(objects.disk)
    assert await resume_run(objects, edge, clock, window=LONG) is None


async def test_while_the_disk_takes_no_page_the_state_keeps_the_steps(tmp_path: Path) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    publication = await open_run(objects, CheckedEdge(objects.disk), clock, window=LONG)
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    objects.full = {"log/0.json", "log/1.json"}
    await broadcast(publication, maker, clock, 60)
    assert not objects.disk.path(f"live/{HASH}/{RUN}/log").exists()
    for name in NAMES:
        assert [one.uri for one in (await listed(objects, name)).segments] == uris(0, 60)
    objects.full = set()
    assert await append_until_full(publication, maker.step()) == 0
    pages = sorted(path.name for path in objects.disk.path(f"live/{HASH}/{RUN}/log").iterdir())
    assert pages == ["0.json", "1.json"]
    for name in NAMES:
        assert [one.uri for one in (await listed(objects, name)).segments] == uris(0, 61)


async def test_a_run_with_a_long_window_that_was_cut_off_is_ended_by_the_next(
    tmp_path: Path,
) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    await begin_long_run(objects, clock, 90)
    edge = CheckedEdge(objects.disk)
    await open_run(objects, edge, clock, now_us=NOON_US + 60_000_000, window=LONG)
    for name in NAMES:
        playlist = await listed(objects, name)
        assert (playlist.ended, len(playlist.segments)) == (True, 75)
        text = edge.local_playlist(f"live/{HASH}/{RUN}/{name}/index.m3u8")
        assert text is not None
        assert parse(text.body.decode()) == playlist


async def test_segments_that_are_due_all_at_once_are_deleted_some_with_each_step(
    tmp_path: Path,
) -> None:
    objects, clock = FailingObjects(DiskObjects(tmp_path)), ManualClock()
    await begin_long_run(objects, clock, 200)
    publication = await resume_run(objects, CheckedEdge(objects.disk), clock, window=LONG)
    assert publication is not None
    maker = ReportMaker.continuing(publication, salt="again")
    await begin_epoch(publication, maker)
    folder = objects.disk.path(f"live/{HASH}/{RUN}/720p")

    def media() -> list[int]:
        return sorted(int(path.stem) for path in folder.glob("*.m4s"))

    oldest = media()[0]
    clock.now += LONG.kept_seconds
    oldest_listed = publication.next_sequence - 76
    await append_all(publication, maker.step(discontinuity=True))
    assert oldest < media()[0] <= oldest + 64 < oldest_listed
    await append_all(publication, maker.step())
    assert media()[0] >= oldest_listed
