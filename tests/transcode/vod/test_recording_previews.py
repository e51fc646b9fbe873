"""Previews of recordings: which moments they show, and how their jobs end."""

import io
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from media.hls.playlist import MediaPlaylist, PlaylistSegment
from media.ticks import VIDEO_SCALE
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.videos.jobs import PREVIEWS
from storage.catalog.videos.recordings import BORROWED_POSTERS
from storage.leases import Lease, LeaseLost
from storage.objects.addresses import replaced_source
from storage.objects.base import StoreFailed
from tests.support.engine.engine_process import EngineOutput
from tests.support.engine.upload_files import picture_size
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.transcode.recordings import MEDIA, RUNG, STEP, add_recording, record
from tests.support.transcode.transcode_fixture import VodFixture, now_us
from transcode.protocol.messages import Previews
from transcode.vod.recording_previews import (
    PreviewContext,
    PreviewMaker,
    SampledSegment,
    read_keyframe,
    sampled_segments,
)

EPOCHS = (3, 3)
POSTERS = "poster-1-1"  # the stream's, where a recording has them
TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3}) -->")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """Six segments of two epochs, each lighter than the one before."""
    output = record(tmp_path_factory.mktemp("run"), *EPOCHS)
    assert [each.init for each in output.segments(RUNG)] == [0, 0, 0, 1, 1, 1]
    return output


@pytest.fixture
def maker(vod: VodFixture) -> PreviewMaker:
    return preview_maker(vod)


def preview_context(vod: VodFixture) -> PreviewContext:
    return PreviewContext(
        jobs=vod.catalog.jobs,
        previews=vod.catalog.previews,
        objects=vod.objects,
        lend=vod.objects.lend,
        now_us=now_us,
    )


def preview_maker(vod: VodFixture) -> PreviewMaker:
    return PreviewMaker(preview_context(vod))


@pytest.fixture
async def recording(vod: VodFixture, output: EngineOutput) -> AsyncGenerator[WholeVideo]:
    yield await add_recording(vod, output, gaps=frozenset())


async def lease(vod: VodFixture, later_us: int = 0) -> Lease:
    owner = secrets.token_hex(8)
    job = await vod.catalog.jobs.lease(owner, now_us() + later_us, PREVIEWS)
    assert job is not None
    return job


async def no_job_is_left(vod: VodFixture) -> bool:
    owner = secrets.token_hex(8)
    return await vod.catalog.jobs.lease(owner, now_us() + 500_000_000, PREVIEWS) is None


async def folder_of(vod: VodFixture, video: int) -> str | None:
    """The previews that a video's row names."""
    return (await vod.catalog.transcoding.find_folders(video))[2]


async def shades(vod: VodFixture, whole: WholeVideo, folder: str) -> dict[int, int]:
    """The luma in the middle of each thumbnail, by the second that it is shown from."""
    place = f"videos/{whole.video.hash}/{folder}"
    text = (await vod.objects.get(f"{place}/previews.vtt")).decode()
    hours = [tuple(map(int, match.groups())) for match in TIME.finditer(text)]
    seconds = [(h * 60 + m) * 60 + s + round(ms / 1000) for h, m, s, ms in hours]
    sheet = io.BytesIO(await vod.objects.get(f"{place}/sheet-0.jpg"))
    with av.open(sheet, "r", format="jpeg_pipe") as container:
        plane = next(container.decode(video=0)).planes[0]
    middle = bytes(plane)[45 * plane.line_size :]  # of thumbnails of 160 x 90
    return {second: middle[160 * number + 80] for number, second in enumerate(seconds)}


# -- which segments ------------------------------------------------------------------------------


def playlist(*durations: float, gaps: frozenset[int] = frozenset()) -> MediaPlaylist:
    """A playlist of segments that last so many seconds."""
    return MediaPlaylist(
        segments=tuple(
            PlaylistSegment(
                uri=f"{number}.m4s",
                duration=round(seconds * VIDEO_SCALE),
                map_uri=None if number in gaps else "init-0.mp4",
                gap=number in gaps,
            )
            for number, seconds in enumerate(durations)
        )
    )


def test_each_segment_of_a_short_recording_is_sampled_at_its_beginning() -> None:
    assert sampled_segments(playlist(2, 4, 1.5)) == [
        SampledSegment(0, "init-0.mp4", "0.m4s"),
        SampledSegment(2000, "init-0.mp4", "1.m4s"),
        SampledSegment(6000, "init-0.mp4", "2.m4s"),
    ]


def test_a_gap_has_no_picture_and_keeps_its_time() -> None:
    samples = sampled_segments(playlist(2, 2, 2, gaps=frozenset({1})))
    assert [(each.at, each.media) for each in samples] == [(0, "0.m4s"), (4000, "2.m4s")]
    assert sampled_segments(playlist(2, gaps=frozenset({0}))) == []
    assert sampled_segments(playlist()) == []


def test_half_a_day_is_sampled_400_times() -> None:
    samples = sampled_segments(playlist(*[2.0] * 21_600))
    assert len(samples) == 400
    steps = {later.at - each.at for each, later in pairwise(samples)}
    assert steps == {108_000}  # 12 h through 400


@given(st.lists(st.integers(1, 1_000_000), max_size=60), st.sets(st.integers(0, 59)))
def test_samples_rise_and_show_what_begins_there(ticks: list[int], gaps: set[int]) -> None:
    listed = playlist(*(each / VIDEO_SCALE for each in ticks), gaps=frozenset(gaps))
    samples = sampled_segments(listed)
    numbers = [int(each.media.removesuffix(".m4s")) for each in samples]
    assert numbers == sorted(set(numbers) - gaps)
    for number, each in zip(numbers, samples, strict=True):
        assert abs(each.at - sum(ticks[:number]) / 90) <= 1


# -- what is read --------------------------------------------------------------------------------


def test_only_the_first_chunk_of_a_segment_is_read(tmp_path: Path, output: EngineOutput) -> None:
    (tmp_path / "init").write_bytes(init := output.inits(RUNG)[0].data)
    segment = output.segments(RUNG)[0]
    (tmp_path / "media").write_bytes(output.data(segment))
    parts = [each.data for each in output.parts(RUNG) if each.sequence == segment.sequence]
    assert len(parts) > 1
    assert read_keyframe(tmp_path / "init", tmp_path / "media") == init + parts[0]


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\0\0\0\x08moof"])
def test_a_damaged_segment_counts_as_missing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "init").write_bytes(b"")
    assert read_keyframe(tmp_path / "init", tmp_path / "media") is None
    (tmp_path / "media").write_bytes(data)
    assert read_keyframe(tmp_path / "init", tmp_path / "media") is None


def test_a_chunk_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    head = (8).to_bytes(4, "big") + b"moof" + (0x7FFF_FFFF).to_bytes(4, "big") + b"mdat"
    (tmp_path / "media").write_bytes(head)
    assert read_keyframe(tmp_path / "media", tmp_path / "media") is None


# -- jobs ----------------------------------------------------------------------------------------


async def test_a_recording_gets_the_picture_of_each_moment(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    video = recording.video.id
    await maker.do(await lease(vod))
    assert await folder_of(vod, video) == "previews-1-1"
    sheet_shades = await shades(vod, recording, "previews-1-1")
    assert list(sheet_shades) == [STEP * number for number in range(sum(EPOCHS))]
    # Each is 20 lighter than the one before: 23 in the full range of a JPEG.
    assert [round((each - sheet_shades[0]) / 23.3) for each in sheet_shades.values()] == list(
        range(6)
    )
    after = await vod.whole_video(video)
    place = f"videos/{recording.video.hash}/previews-1-1"
    sizes = [len(await vod.objects.get(name)) for name in await vod.objects.addresses(place)]
    assert after.video.storage_size - recording.video.storage_size == sum(sizes) > 0
    assert (after.video.state, after.video.media) == ("completed", MEDIA)
    assert await no_job_is_left(vod)


async def test_a_recording_keeps_the_poster_that_it_has(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    await maker.do(await lease(vod))
    place = f"videos/{recording.video.hash}/{POSTERS}"
    assert await vod.objects.addresses(place) == [f"{place}/{RUNG}.jpg"]
    assert await vod.objects.get(f"{place}/{RUNG}.jpg") == b"the stream's"


@pytest.mark.parametrize("posters", [None, BORROWED_POSTERS], ids=["none", "the stream's"])
@pytest.mark.parametrize("alone", [False, True], ids=["segments", "one segment"])
async def test_a_clip_gets_a_poster_from_its_own_pictures(
    vod: VodFixture, maker: PreviewMaker, output: EngineOutput, posters: str | None, alone: bool
) -> None:
    gaps = frozenset(range(1, 6)) if alone else frozenset[int]()
    whole = await add_recording(vod, output, gaps=gaps, posters=posters)
    await maker.do(await lease(vod))
    after = (await vod.whole_video(whole.video.id)).video
    assert (after.posters, after.labels) == ("poster-1-1", RUNG)
    place = f"videos/{after.hash}/poster-1-1"
    assert await vod.objects.addresses(place) == [f"{place}/{RUNG}.jpg"]
    assert picture_size(await vod.objects.get(f"{place}/{RUNG}.jpg")) == (320, 180)
    folders = {name.split("/")[2] for name in await vod.stored_objects(after.hash)}
    assert folders == {MEDIA, "poster-1-1"} | ({"previews-1-1"} if not alone else set())
    assert await no_job_is_left(vod)


async def test_a_poster_that_its_owner_sends_meanwhile_stays(
    vod: VodFixture, maker: PreviewMaker, output: EngineOutput
) -> None:
    whole = await add_recording(vod, output, gaps=frozenset(), posters=BORROWED_POSTERS)
    job = await lease(vod)
    video = whole.video.id
    await vod.catalog.videos.set_posters(video, "own-abc", (RUNG,), Change(now_us()))
    await maker.do(job)
    assert (await vod.whole_video(video)).video.posters == "own-abc"
    folders = {name.split("/")[2] for name in await vod.stored_objects(whole.video.hash)}
    assert not any(name.startswith("poster-1-1") for name in folders)


async def test_gaps_and_missing_segments_have_no_picture(
    vod: VodFixture, maker: PreviewMaker, output: EngineOutput
) -> None:
    whole = await add_recording(vod, output, gaps=frozenset({1}))
    await vod.objects.delete(f"videos/{whole.video.hash}/{MEDIA}/{RUNG}/4.m4s")
    await maker.do(await lease(vod))
    sheet_shades = await shades(vod, whole, "previews-1-1")
    assert list(sheet_shades) == [0, 4, 6, 10]
    assert [round((each - sheet_shades[0]) / 23.3) for each in sheet_shades.values()] == [
        0,
        2,
        3,
        5,
    ]


async def test_sound_alone_has_no_previews(vod: VodFixture) -> None:
    await add_recording(vod, None, gaps=frozenset())
    assert await no_job_is_left(vod)


async def test_one_picture_is_not_worth_a_list(
    vod: VodFixture, maker: PreviewMaker, output: EngineOutput
) -> None:
    whole = await add_recording(vod, output, gaps=frozenset(range(1, 6)))
    await maker.do(await lease(vod))
    assert await folder_of(vod, whole.video.id) is None
    assert await no_job_is_left(vod)


async def test_a_recording_without_its_playlist_is_not_changed(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    hash_ = recording.video.hash
    await vod.objects.delete(f"videos/{hash_}/{MEDIA}/{RUNG}/index.m3u8")
    await maker.do(await lease(vod))
    assert await folder_of(vod, recording.video.id) is None
    assert (await vod.status(recording.video.id)).state == "completed"
    assert await no_job_is_left(vod)


async def test_a_worker_that_died_is_followed_by_the_next(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    hash_ = recording.video.hash
    dead = await lease(vod)
    await vod.objects.put(f"videos/{hash_}/previews-1-1/sheet-0.jpg", b"half")
    await maker.do(await lease(vod, later_us=dead.lease_us + 1))
    assert await folder_of(vod, recording.video.id) == "previews-1-2"
    folders = {name.split("/")[2] for name in await vod.stored_objects(hash_)}
    assert folders == {MEDIA, POSTERS, "previews-1-2"}
    with pytest.raises(LeaseLost):
        await maker.do(dead)
    assert await folder_of(vod, recording.video.id) == "previews-1-2"


async def test_a_file_that_kills_every_worker_is_given_up(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    later_us = 0
    for _ in range(PREVIEWS.most_failures):
        job = await lease(vod, later_us)
        later_us += job.lease_us + 1
    last = await lease(vod, later_us)
    assert last.spent
    await maker.do(last)
    assert (await vod.status(recording.video.id)).state == "completed"
    assert await no_job_is_left(vod)


async def test_nothing_is_left_of_the_previews_of_a_deleted_video(
    vod: VodFixture, recording: WholeVideo
) -> None:
    """It is deleted while its segments are read."""
    job = await lease(vod)
    reads = 0

    def lend(address: str) -> AbstractAsyncContextManager[Path]:
        nonlocal reads
        reads += 1
        return vod.objects.lend(address)

    class Deleting:
        """The object store, where the video is deleted before the first sheet is stored."""

        def __getattr__(self, name: str) -> object:
            return getattr(vod.objects, name)

        async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
            if any(address.endswith("sheet-0.jpg") for address in objects):
                await vod.catalog.videos.remove(recording.video.id, Change(now_us()))
            await vod.objects.put_all(objects, vital=vital)

    maker = PreviewMaker(replace(preview_context(vod), objects=Deleting(), lend=lend))
    with pytest.raises(LeaseLost):
        await maker.do(job)
    assert reads == 2 * sum(EPOCHS)
    folders = {name.split("/")[2] for name in await vod.stored_objects(recording.video.hash)}
    assert folders == {MEDIA, POSTERS}


async def test_a_store_that_fails_costs_the_attempt_and_no_traceback(
    vod: VodFixture, recording: WholeVideo, caplog: pytest.LogCaptureFixture
) -> None:
    """Segments cannot be read for a while: the job is tried again later."""

    def lend(address: str) -> AbstractAsyncContextManager[Path]:
        raise StoreFailed(address, "no answer")

    maker = PreviewMaker(replace(preview_context(vod), lend=lend))
    job = await lease(vod)
    await maker.do(job)
    assert "previews not stored" in caplog.text
    assert "Traceback" not in caplog.text
    again = await lease(vod, later_us=job.lease_us + 1)
    assert again.id == job.id
    assert (await vod.status(recording.video.id)).state == "completed"


async def test_another_file_ends_the_job(
    vod: VodFixture, maker: PreviewMaker, recording: WholeVideo
) -> None:
    """The job of the file that the owner sent takes the place of this one."""
    job = await lease(vod)
    source = replaced_source(recording.video.hash, "another")
    await vod.objects.put(source, b"film")
    file = VideoFile(source=source, size=4, length_us=0, width=0, height=0)
    assert await vod.catalog.videos.replace(recording.video.id, file, Change(now_us()))
    with pytest.raises(LeaseLost):
        await maker.do(job)
    assert await folder_of(vod, recording.video.id) is None
    assert (await vod.lease()).subject == recording.video.id


@pytest.mark.usefixtures("children_start")
async def test_previews_without_an_end_fail_the_attempt_in_little_memory(
    vod: VodFixture,
    maker: PreviewMaker,
    recording: WholeVideo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sheets = (bytes(6 * MIB),)
    previews = Previews(width=2, height=2, columns=1, per_sheet=1, times=(0,), sheets=sheets)
    job = await lease(vod)
    with monkeypatch.context() as patched, measured_growth() as growth:
        flood_engines(patched, tmp_path, [previews])
        await maker.do(job)
    assert growth.peak < 64 * MIB
    assert "engine lost" in [each.message for each in caplog.records]
    assert await folder_of(vod, recording.video.id) is None
    assert (await lease(vod, job.lease_us + 1)).id == job.id
