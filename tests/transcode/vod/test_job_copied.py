"""While live streams need the machine, files become what they can without encoding a picture."""

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.jobs import SPAN, TRANSCODE
from storage.leases import Lease
from storage.workers.worker_pool import WorkerPool
from tests.support.engine.made_assets import OWN, SIZE, SMALL
from tests.support.engine.numbered_films import numbered
from tests.support.engine.sources import ffmpeg
from tests.support.transcode.spanned_asset import film_with_own_packets, is_whole
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture
from tests.support.waiting import until

PATIENCE = 120.0


class Machine:
    """Whether live streams leave room for encoders."""

    def __init__(self) -> None:
        self.has_room = False
        self.asked = 0

    def may_encode(self) -> bool:
        self.asked += 1
        return self.has_room


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def busy(
    vod_engines: tuple[str, object] | None, tmp_path: Path, machine: Machine
) -> AsyncGenerator[VodFixture]:
    location = vod_engines[0] if vod_engines else None
    folder = tmp_path / "data"
    async with vod_fixture(folder, location=location, may_encode=machine.may_encode) as opened:
        yield opened


@pytest.fixture(scope="module")
def long_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="module")
def short_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 s of 480p whose packets are reused: only 360p is encoded."""
    folder = tmp_path_factory.mktemp("films")
    return numbered(folder / "short.mp4", *OWN, "-c:a", "aac", seconds=3, size=SIZE)


@pytest.fixture(scope="module")
def leaping_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pieces of 2 s, 100 s apart: all of it is encoded in one pass."""
    folder = tmp_path_factory.mktemp("films")
    first = numbered(folder / "a.ts", *OWN, "-c:a", "aac", seconds=2, size=SMALL)
    ffmpeg("-i", first, "-c", "copy", "-output_ts_offset", "100", "-y", folder / "b.ts")
    path = folder / "leaping.ts"
    path.write_bytes(first.read_bytes() + (folder / "b.ts").read_bytes())
    return path


async def do_all(vod: VodFixture) -> list[Lease]:
    """Do all that may be leased, one after the other."""
    done: list[Lease] = []
    while (held := await vod.transcoder.lease(secrets.token_hex(8))) is not None:
        await vod.transcoder.do(held)
        done.append(held)
        assert len(done) < 10, "the same is done again and again"
    return done


async def plays_at(vod: VodFixture, whole: WholeVideo) -> list[str]:
    return sorted(await vod.rendition_files(whole))


@pytest.mark.parametrize("film", ["long_film", "short_film"])
async def test_a_film_plays_at_its_own_size_and_its_spans_wait(
    busy: VodFixture, machine: Machine, film: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(film)
    video = (await busy.add(path)).video.id
    assert len(await do_all(busy)) == 1
    early = await busy.whole_video(video)
    assert (early.video.state, early.video.published) == ("transcoding", True)
    assert await plays_at(busy, early) == ["480p", "audio"]
    assert [each.width for each in early.rungs if each.transcoded] == [SIZE[0]]
    stored = await busy.stored_objects(early.video.hash)
    assert not any("/360p/" in name for name in stored)
    machine.has_room = True
    rest = await do_all(busy)
    spans = 2 if film == "long_film" else 1
    assert [each.kind for each in rest] == [*[SPAN] * spans, TRANSCODE]
    whole = await busy.whole_video(video)
    assert whole.video.state == "completed"
    assert await plays_at(busy, whole) == ["360p", "480p", "audio"]
    if film == "long_film":
        assert await is_whole(busy, whole)


async def test_a_film_whose_ladder_is_its_own_packets_is_finished(
    busy: VodFixture, tmp_path: Path
) -> None:
    path = numbered(tmp_path / "a.mp4", *OWN, "-c:a", "libmp3lame", seconds=3, size=SMALL)
    video = (await busy.add(path)).video.id
    await do_all(busy)
    whole = await busy.whole_video(video)
    assert whole.video.state == "completed"
    assert await plays_at(busy, whole) == ["240p", "audio"]


async def test_sound_alone_is_finished(busy: VodFixture, tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    ffmpeg("-f", "lavfi", "-i", "sine=duration=3", "-c:a", "libmp3lame", "-y", path)
    video = (await busy.add(path)).video.id
    await do_all(busy)
    assert (await busy.status(video)).state == "completed"


async def test_spans_that_were_made_meanwhile_are_assembled(
    busy: VodFixture, machine: Machine, short_film: Path
) -> None:
    video = (await busy.add(short_film)).video.id
    await do_all(busy)
    machine.has_room = True  # as for a worker on another machine
    span = await busy.transcoder.lease("elsewhere")
    assert span is not None and span.kind == SPAN
    await busy.transcoder.do(span)
    machine.has_room = False
    await do_all(busy)
    assert (await busy.status(video)).state == "completed"


async def test_a_film_that_must_be_encoded_whole_is_surveyed_once_and_others_pass_it(
    busy: VodFixture, machine: Machine, leaping_film: Path, short_film: Path
) -> None:
    first = (await busy.add(leaping_film)).video
    second = (await busy.add(short_film)).video.id
    done = await do_all(busy)
    assert [each.subject for each in done] == [first.id, second]
    assert await busy.transcoder.lease("again") is None
    assert (await busy.status(first.id)).state == "queued"
    assert await busy.stored_objects(first.hash) == []
    machine.has_room = True
    await do_all(busy)
    status = await busy.status(first.id)
    assert (status.state, status.attempt) == ("completed", 2)


async def test_a_damaged_film_fails_without_waiting(busy: VodFixture, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"no media" * 100)
    video = (await busy.add(path)).video.id
    await do_all(busy)
    assert (await busy.status(video)).state == "failed"


async def test_one_file_is_copied_at_a_time(
    busy: VodFixture, machine: Machine, short_film: Path
) -> None:
    for _ in range(2):
        await busy.add(short_film)
    first = await busy.transcoder.lease("one")
    assert first is not None
    assert await busy.transcoder.lease("two") is None
    await busy.transcoder.do(first)
    second = await busy.transcoder.lease("three")
    assert second is not None
    assert second.subject != first.subject


async def test_what_an_attempt_queued_before_it_was_stopped_is_made_by_others(
    busy: VodFixture, machine: Machine, short_film: Path
) -> None:
    whole = await busy.add(short_film)
    first = await busy.transcoder.lease("one")
    assert first is not None

    async def plays() -> bool:
        return (await busy.whole_video(whole.video.id)).video.media is not None

    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(busy.transcoder.do(first))
        await until(plays, within=PATIENCE)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    machine.has_room = True
    done = await do_all(busy)
    assert Counter(each.kind for each in done) == {SPAN: 1, TRANSCODE: 2}
    made = await busy.whole_video(whole.video.id)
    assert (made.video.state, made.video.media) == ("completed", "1-3")
    assert await plays_at(busy, made) == ["360p", "480p", "audio"]


async def test_spans_are_begun_by_a_pool_once_live_streams_leave_room(
    busy: VodFixture, machine: Machine, short_film: Path
) -> None:
    video = (await busy.add(short_film)).video.id
    workers = WorkerPool(busy.transcoder, size=1)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(workers.run())

        async def is_copied() -> bool:
            return (await busy.whole_video(video)).video.published

        await until(is_copied, within=PATIENCE)
        asked = machine.asked

        async def was_asked() -> bool:
            return machine.asked > asked + 2

        await until(was_asked, within=PATIENCE)
        assert (await busy.status(video)).state == "transcoding"
        machine.has_room = True
        assert (await busy.wait_until_ended(video, within=PATIENCE)).state == "completed"
        running.cancel()
