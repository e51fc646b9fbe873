"""Runs become videos: recorded as they are listed, finished when they are over."""

import asyncio
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoRecord
from storage.catalog.videos.recordings import Recordings
from tests.support.sql import run_sql
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    TWO,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    resume_run,
    variants,
)
from tests.support.storage.recorded_run import DAY_US, RecorderFixture, run_recorder
from tests.support.waiting import until

LATER_US = NOON_US + 3_600_000_000


async def videos_of(fixture: RecorderFixture, number: int) -> list[VideoRecord]:
    """Wait until there are so many videos."""

    async def enough() -> bool:
        return len(await fixture.videos()) >= number

    await until(enough)
    return await fixture.videos()


async def test_a_run_becomes_a_video_when_it_is_over(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(40, maker=ReportMaker(TOP, LOW))
        maker.epoch = 1
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(discontinuity=True))
        await fixture.show(publication, maker, 3)
        # Long after the live window: segments that left it still exist.
        assert not fixture.disk.path(f"live/{HASH}/{RUN}/{TOP.name}/0.m4s").exists()
        assert await fixture.videos() == []
        await publication.finish()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        playlist = fixture.playlist(video, TOP.name)
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in range(44)]
        assert [n for n, one in enumerate(playlist.segments) if one.discontinuity] == [40]
        assert playlist.target == 2
        assert [one.height for one in fixture.variants(video).variants] == [720, 360]
        assert fixture.variants(video).variants[0].codecs == ("avc1.64001F", "mp4a.40.2")
        assert video.length_us == 44 * 2_000_000
        assert (video.width, video.height) == (TOP.width, TOP.height)
        assert video.title == "Morning, 2026-01-31 12:00"
        assert video.name == "morning,-2026-01-31-12:00"
        assert (video.state, video.progress, video.published) == ("completed", 100, True)
        whole = await fixture.whole(video)
        assert [(rung.number, rung.transcoded) for rung in whole.rungs] == [(1, True), (3, True)]
        # The live playlists are unchanged.
        assert variants(fixture.disk).variants[0].uri.startswith(RUN)


async def test_what_is_recorded_takes_no_second_room(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await fixture.on_air(3)
        await fixture.caught_up(publication)
        await publication.finish()
        (video,) = await fixture.all_over()
        live = fixture.disk.path(f"live/{HASH}/{RUN}")
        for name in (TOP.name, AUDIO_RENDITION):
            for file in ("0.m4s", "1.m4s", "2.m4s", "init-0.mp4"):
                assert (live / name / file).samefile(fixture.folder(video) / name / file)
                assert (live / name / file).stat().st_nlink == 2


async def test_a_run_that_is_not_to_be_recorded_is_not(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        other = ReportMaker(TOP)
        await publication.finish()  # nothing was ever listed
        await begin_epoch(publication, other)
        again = await fixture.open(now_us=LATER_US)
        fixture.follow(again)
        maker = ReportMaker(TOP)
        await begin_epoch(again, maker)
        await fixture.show(again, maker, 3)
        await again.finish()
        await fixture.release()
        assert await fixture.all_over() == []
        await until(fixture.is_bare)


async def test_a_moment_is_no_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(TWO // 2))
        await publication.finish()
        await fixture.release()
        assert await fixture.all_over() == []
        await until(fixture.is_bare)


async def test_a_run_that_a_restart_cut_off_is_recorded_further(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        await fixture.on_air(20, maker=ReportMaker(TOP, salt="first"))
        await fixture.release()
    async with run_recorder(tmp_path) as fixture:
        resumed = await resume_run(fixture.objects, fixture.edge, fixture.clock)
        assert resumed is not None
        # Changed settings apply from the next run on.
        fixture.follow(resumed)
        maker = ReportMaker.continuing(resumed, salt="second")
        await begin_epoch(resumed, maker)
        await append_all(resumed, maker.step(discontinuity=True))
        await fixture.show(resumed, maker, 4)
        await resumed.finish()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        playlist = fixture.playlist(video, TOP.name)
        # Viewers may have seen the beginning of the 20th, which died with the process.
        numbers = [*range(20), *range(21, 26)]
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in numbers]
        assert [n for n, one in enumerate(playlist.segments) if one.discontinuity] == [20]
        assert [one.map_uri for one in playlist.segments][19:21] == ["init-0.mp4", "init-1.mp4"]


async def test_a_run_that_no_encoder_resumes_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await fixture.on_air(20)
        await fixture.caught_up(publication)
    async with run_recorder(tmp_path) as fixture:
        # It may still come back.
        assert len(await fixture.catalog.recordings.find_all()) == 1
        resumed = await resume_run(fixture.objects, fixture.edge, fixture.clock)
        assert resumed is not None
        assert len(await fixture.catalog.recordings.find_all()) == 1
        await resumed.finish()
        fixture.recorder.check_ended()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        assert len(fixture.playlist(video, TOP.name).segments) == 20


async def test_a_run_that_another_followed_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(14)
        await fixture.caught_up(publication)
        # The run's notes are lost, as after a power cut, so its end is unknown.
        fixture.disk.path(f"live/{HASH}/{RUN}/state.json").write_bytes(b"")
    async with run_recorder(tmp_path) as fixture:
        following, maker = await fixture.on_air(1, now_us=LATER_US)
        (video,) = await videos_of(fixture, 1)
        await fixture.check(video, exact=False)
        # Up to the newest page.
        assert len(fixture.playlist(video, TOP.name).segments) == 13
        await fixture.show(following, maker, 1)
        await following.finish()
        assert len(await fixture.all_over()) == 2


async def test_below_the_least_room_no_recording_begins(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        fixture.free = 1000
        publication, _ = await fixture.on_air(3)
        await fixture.release()
        (facts,) = fixture.events_of("recording not begun")
        assert "free space is 1000 bytes" in str(facts["cause"])
        await publication.finish()
        assert await fixture.all_over() == []


async def test_where_room_runs_out_what_there_is_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(5)
        await fixture.caught_up(publication)
        fixture.free = 1000
        await fixture.show(publication, maker, 1)
        (video,) = await fixture.all_over()
        assert len(fixture.events_of("recording stopped")) == 1
        # The run goes on, and is not recorded again although there is room.
        fixture.free = 1 << 40
        await fixture.show(publication, maker, 5)
        await publication.finish()
        await fixture.check(video)
        # The step at which the lack of room was noticed may be included.
        assert len(fixture.playlist(video, TOP.name).segments) in (5, 6)
        assert await fixture.all_over() == [video]


async def test_what_cannot_be_linked_is_a_gap_and_costs_the_run_nothing(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(3, maker=ReportMaker(TOP, LOW))
        await fixture.caught_up(publication)
        video_folder = next((fixture.disk.root / "videos").iterdir())
        target = f"{video_folder.name}/1-1/{TOP.name}/3.m4s"
        places = (f"{video_folder.name}/1-1/{name}/5.m4s" for name in (TOP.name, LOW.name))
        fixture.objects.full = {target, *places}
        await fixture.show(publication, maker, 5)
        await publication.finish()
        (video,) = await fixture.all_over()
        playlist = fixture.playlist(video, TOP.name)
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in (0, 1, 2, 3, 4, 6, 7)]
        assert [one.uri for one in playlist.segments if one.gap] == ["3.m4s"]
        assert [one.uri for one in playlist.segments if one.discontinuity] == ["6.m4s"]
        assert not any(one.gap for one in fixture.playlist(video, LOW.name).segments)


async def test_a_step_counts_once_it_is_listed_even_if_its_playlists_fail(
    tmp_path: Path,
) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(2)
        fixture.objects.full = {f"{RUN}/{TOP.name}/index.m3u8"}
        assert await append_until_full(publication, maker.step()) > 0
        fixture.objects.full = {"state.json"}
        assert await append_until_full(publication, maker.step()) > 0
        fixture.objects.full = set()
        await fixture.show(publication, maker, 2)
        await fixture.caught_up(publication)
        await publication.finish()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        segments = fixture.playlist(video, TOP.name).segments
        assert [one.uri for one in segments] == [f"{n}.m4s" for n in range(6)]
        assert not any(one.discontinuity for one in segments)


async def test_pages_that_cannot_be_written_wait(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        maker = ReportMaker(TOP)
        fixture.objects.full = {"/record/0.json", "/record/1.json"}
        await begin_epoch(publication, maker)
        await fixture.show(publication, maker, 30)
        await fixture.caught_up(publication)
        fixture.objects.full = set()
        await fixture.show(publication, maker, 3)
        await publication.finish()
        (video,) = await fixture.all_over()
        await fixture.check(video)
        assert len(fixture.playlist(video, TOP.name).segments) == 33


async def test_a_disk_that_takes_no_playlists_is_tried_again(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await fixture.on_air(3)
        await fixture.caught_up(publication)
        fixture.objects.full = {"1-1/index.m3u8"}
        await publication.finish()
        await fixture.release()
        for _ in range(3):
            fixture.recorder.check_ended()
            await asyncio.sleep(0.05)
        assert len(await fixture.catalog.recordings.find_all()) == 1
        fixture.objects.full = set()
        fixture.recorder.check_ended()
        (video,) = await fixture.all_over()
        await fixture.check(video)


async def test_posters_of_the_stream_become_the_videos(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication = await fixture.open()
        for label in ("720p", "360p"):
            await fixture.disk.put(f"live/{HASH}/poster/{label}.jpg", label.encode())
        await fixture.disk.put(f"live/{HASH}/poster/strange.jpg", b"x")
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await fixture.show(publication, maker, 3)
        await fixture.caught_up(publication)
        await publication.finish()
        (video,) = await fixture.all_over()
        assert video.posters == "poster-1-1"
        assert video.poster_labels == ("360p", "720p")
        await fixture.disk.put(f"live/{HASH}/poster/720p.jpg", b"another")
        poster = await fixture.disk.get(f"videos/{video.hash}/poster-1-1/720p.jpg")
        assert poster == b"720p"


async def test_a_deleted_streams_recording_becomes_a_video_for_its_owner(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await fixture.on_air(20, keep_days=3)
        await fixture.caught_up(publication)
        (stream,) = await fixture.catalog.streams.find_all()
        await fixture.catalog.streams.remove(stream.id, Change(NOON_US))
        await publication.finish()
        await fixture.release()
        await fixture.disk.delete_tree(f"live/{HASH}")
        (video,) = await fixture.all_over()
        await fixture.check(video)
        assert video.title.startswith("Morning")
        assert (video.hidden, video.published) == (True, False)
        assert len(fixture.playlist(video, TOP.name).segments) == 20
        assert await fixture.catalog.recordings.expire(NOON_US + 3 * DAY_US - 1) is None
        assert (
            await fixture.catalog.recordings.expire(NOON_US + 3 * DAY_US) == f"videos/{video.hash}"
        )


@pytest.mark.parametrize("has_pages", [True, False], ids=["with its pages", "without them"])
async def test_a_recording_of_a_restored_catalog_does_not_cost_the_video_it_became(
    tmp_path: Path, has_pages: bool
) -> None:
    """The backup was made while the run was on air; by now its video is all that is left of it.

    It becomes that video again, unless it was recorded by a version that removed the pages.
    """
    backup = tmp_path / "backup.db"
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await fixture.on_air(3, maker=ReportMaker(TOP, LOW))
        await fixture.caught_up(publication)
        await asyncio.to_thread(run_sql, tmp_path / "catalog.db", f"VACUUM INTO '{backup}'")
        await publication.finish()
        fixture.recorder.check_ended()
        [video] = await fixture.all_over()
        await fixture.check(video)
        if not has_pages:
            await fixture.disk.delete_tree(f"videos/{video.hash}/1-1/record")
        before = await fixture.disk.addresses(f"videos/{video.hash}")
        await fixture.disk.delete_tree(f"live/{HASH}")
    for ending in ("-wal", "-shm"):
        (tmp_path / f"catalog.db{ending}").unlink(missing_ok=True)
    backup.replace(tmp_path / "catalog.db")
    async with run_recorder(tmp_path, now_us=NOON_US + 120_000_000) as fixture:
        if has_pages:
            [again] = await fixture.all_over()
            assert (again.hash, again.length_us) == (video.hash, video.length_us)
            await fixture.check(again)
            assert await fixture.disk.addresses(f"videos/{video.hash}") == before
            return
        assert await fixture.all_over() == []
        await until(fixture.is_bare)
        trash = await fixture.disk.addresses("trash")
        assert [each.split("/", 2)[2] for each in trash] == before


async def test_a_recording_that_another_host_has_just_begun_is_not_over(tmp_path: Path) -> None:
    """The recording's row is written just before the first state of its run."""
    async with run_recorder(tmp_path, now_us=NOON_US + 119_000_000) as fixture:
        row = await fixture.catalog.recordings.begin(HASH, RUN, 7, NOON_US)
        assert row is not None
        fixture.recorder.check_ended()
        await asyncio.sleep(0.3)  # time in which it would be dropped
        assert await fixture.catalog.recordings.find_all() == (row,)
    async with run_recorder(tmp_path, now_us=NOON_US + 120_000_000) as fixture:
        assert await fixture.all_over() == []


async def test_a_fault_of_the_search_for_ended_runs_ends_no_recording_of_a_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def find_none(_: Recordings) -> list[None]:
        return [None]  # a bug of ours: it finds rows that are none

    async with run_recorder(tmp_path) as fixture:
        publication, maker = await fixture.on_air(3, maker=ReportMaker(TOP, LOW))
        await fixture.caught_up(publication)
        with monkeypatch.context() as faulty:
            faulty.setattr(Recordings, "find_all", find_none)
            for _ in range(2):
                fixture.recorder.check_ended()
                await until(lambda: "recordings not listed" in caplog.text)
        await fixture.show(publication, maker, 3)
        await fixture.caught_up(publication)
        await publication.finish()
        (video,) = await fixture.all_over()
        assert video.length_us == 6 * 2_000_000
    logged = [each for each in caplog.records if each.msg == "recordings not listed"]
    assert [each.exc_info is not None for each in logged] == [True]
