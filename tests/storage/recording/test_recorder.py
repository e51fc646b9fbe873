"""Runs become videos: recorded as they are listed, finished when they are over."""

import asyncio
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from storage.catalog.records.videos import VideoRecord
from storage.live.publication import Publication
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


async def steps(
    made: RecorderFixture, maker: ReportMaker, publication: Publication, number: int
) -> None:
    for _ in range(number):
        await append_all(publication, maker.step())
        made.clock.now += 2.0


async def videos_of(made: RecorderFixture, number: int) -> list[VideoRecord]:
    """Wait until there are so many videos."""

    async def enough() -> bool:
        return len(await made.videos()) >= number

    await until(enough)
    return await made.videos()


async def test_a_run_becomes_a_video_when_it_is_over(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 40)
        maker.epoch = 1
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(discontinuity=True))
        await steps(made, maker, publication, 3)
        # Long after the live window: what left it is still here.
        assert not made.disk.path(f"live/{HASH}/{RUN}/{TOP.name}/0.m4s").exists()
        assert await made.videos() == []
        await publication.finish()
        (video,) = await made.all_over()
        await made.check(video)
        playlist = made.playlist(video, TOP.name)
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in range(44)]
        assert [n for n, one in enumerate(playlist.segments) if one.discontinuity] == [40]
        assert playlist.target == 2
        assert [one.height for one in made.variants(video).variants] == [720, 360]
        assert made.variants(video).variants[0].codecs == ("avc1.64001F", "mp4a.40.2")
        assert video.length_us == 44 * 2_000_000
        assert (video.width, video.height) == (TOP.width, TOP.height)
        assert video.title == "Morning, 2026-01-31 12:00"
        assert video.name == "morning,-2026-01-31-12:00"
        assert (video.state, video.progress, video.published) == ("completed", 100, True)
        whole = await made.whole(video)
        assert [(rung.number, rung.transcoded) for rung in whole.rungs] == [(1, True), (3, True)]
        # The live playlists are what they were.
        assert variants(made.disk).variants[0].uri.startswith(RUN)


async def test_what_is_recorded_takes_no_second_room(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.caught_up(publication)
        await publication.finish()
        (video,) = await made.all_over()
        live = made.disk.path(f"live/{HASH}/{RUN}")
        for name in (TOP.name, AUDIO_RENDITION):
            for file in ("0.m4s", "1.m4s", "2.m4s", "init-0.mp4"):
                assert (live / name / file).samefile(made.folder(video) / name / file)
                assert (live / name / file).stat().st_nlink == 2


async def test_a_run_that_is_not_to_be_recorded_is_not(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        other = ReportMaker(TOP)
        await publication.finish()  # nothing was ever listed
        await begin_epoch(publication, other)
        again = await made.open(now_us=LATER_US)
        made.recorder.follow(again, may_begin=False, keep_days=0)
        maker = ReportMaker(TOP)
        await begin_epoch(again, maker)
        await steps(made, maker, again, 3)
        await again.finish()
        await made.recorder.release(HASH)
        assert await made.all_over() == []
        await until(made.is_bare)


async def test_a_moment_is_no_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(TWO // 2))
        await publication.finish()
        await made.recorder.release(HASH)
        assert await made.all_over() == []
        await until(made.is_bare)


async def test_a_run_that_a_restart_cut_off_goes_on_being_recorded(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, salt="first")
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 20)
        await made.recorder.release(HASH)
    async with run_recorder(tmp_path) as made:
        resumed = await resume_run(made.objects, made.edge, made.clock)
        assert resumed is not None
        # Its settings may say otherwise by now: they count from the next run on.
        made.recorder.follow(resumed, may_begin=False, keep_days=0)
        maker = ReportMaker.continuing(resumed, salt="second")
        await begin_epoch(resumed, maker)
        await append_all(resumed, maker.step(discontinuity=True))
        await steps(made, maker, resumed, 4)
        await resumed.finish()
        (video,) = await made.all_over()
        await made.check(video)
        playlist = made.playlist(video, TOP.name)
        # Viewers may have seen the beginning of the 20th, which died with the process.
        numbers = [*range(20), *range(21, 26)]
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in numbers]
        assert [n for n, one in enumerate(playlist.segments) if one.discontinuity] == [20]
        assert [one.map_uri for one in playlist.segments][19:21] == ["init-0.mp4", "init-1.mp4"]


async def test_a_run_that_nobody_comes_back_to_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 20)
        await made.caught_up(publication)
    async with run_recorder(tmp_path) as made:
        # It may still come back.
        assert len(await made.catalog.recordings.find_all()) == 1
        left = await resume_run(made.objects, made.edge, made.clock)
        assert left is not None
        assert len(await made.catalog.recordings.find_all()) == 1
        await left.finish()
        made.recorder.check_ended()
        (video,) = await made.all_over()
        await made.check(video)
        assert len(made.playlist(video, TOP.name).segments) == 20


async def test_a_run_that_another_followed_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 14)
        await made.caught_up(publication)
        # Its notes are lost, as after a power cut: nobody can say how it ended.
        made.disk.path(f"live/{HASH}/{RUN}/state.json").write_bytes(b"")
    async with run_recorder(tmp_path) as made:
        following = await made.open(now_us=LATER_US)
        maker = ReportMaker(TOP)
        await begin_epoch(following, maker)
        await steps(made, maker, following, 1)
        (video,) = await videos_of(made, 1)
        await made.check(video, exact=False)
        # Up to the newest page.
        assert len(made.playlist(video, TOP.name).segments) == 13
        await steps(made, maker, following, 1)
        await following.finish()
        assert len(await made.all_over()) == 2


async def test_below_the_least_room_no_recording_begins(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        made.free = 1000
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.recorder.release(HASH)
        (facts,) = made.events_of("recording not begun")
        assert "free space is 1000 bytes" in str(facts["cause"])
        await publication.finish()
        assert await made.all_over() == []


async def test_where_room_runs_out_what_there_is_becomes_a_video(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 5)
        await made.caught_up(publication)
        made.free = 1000
        await steps(made, maker, publication, 1)
        (video,) = await made.all_over()
        assert len(made.events_of("recording stopped")) == 1
        # The run goes on, and is not recorded again although there is room.
        made.free = 1 << 40
        await steps(made, maker, publication, 5)
        await publication.finish()
        await made.check(video)
        # With the step at which it was found, or without.
        assert len(made.playlist(video, TOP.name).segments) in (5, 6)
        assert await made.all_over() == [video]


async def test_what_cannot_be_linked_is_a_gap_and_costs_the_run_nothing(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.caught_up(publication)
        video_folder = next((made.disk.root / "videos").iterdir())
        target = f"{video_folder.name}/1-1/{TOP.name}/3.m4s"
        places = (f"{video_folder.name}/1-1/{name}/5.m4s" for name in (TOP.name, LOW.name))
        made.objects.full = {target, *places}
        await steps(made, maker, publication, 5)
        await publication.finish()
        (video,) = await made.all_over()
        playlist = made.playlist(video, TOP.name)
        assert [one.uri for one in playlist.segments] == [f"{n}.m4s" for n in (0, 1, 2, 3, 4, 6, 7)]
        assert [one.uri for one in playlist.segments if one.gap] == ["3.m4s"]
        assert [one.uri for one in playlist.segments if one.discontinuity] == ["6.m4s"]
        assert not any(one.gap for one in made.playlist(video, LOW.name).segments)


async def test_a_step_counts_when_it_is_listed_whatever_becomes_of_its_playlists(
    tmp_path: Path,
) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 2)
        made.objects.full = {f"{RUN}/{TOP.name}/index.m3u8"}
        assert await append_until_full(publication, maker.step()) > 0
        made.objects.full = {"state.json"}
        assert await append_until_full(publication, maker.step()) > 0
        made.objects.full = set()
        await steps(made, maker, publication, 2)
        await made.caught_up(publication)
        await publication.finish()
        (video,) = await made.all_over()
        await made.check(video)
        segments = made.playlist(video, TOP.name).segments
        assert [one.uri for one in segments] == [f"{n}.m4s" for n in range(6)]
        assert not any(one.discontinuity for one in segments)


async def test_pages_that_cannot_be_written_wait(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        made.objects.full = {"/record/0.json", "/record/1.json"}
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 30)
        await made.caught_up(publication)
        made.objects.full = set()
        await steps(made, maker, publication, 3)
        await publication.finish()
        (video,) = await made.all_over()
        await made.check(video)
        assert len(made.playlist(video, TOP.name).segments) == 33


async def test_a_disk_that_takes_no_playlists_is_tried_again(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.caught_up(publication)
        made.objects.full = {"1-1/index.m3u8"}
        await publication.finish()
        await made.recorder.release(HASH)
        for _ in range(3):
            made.recorder.check_ended()
            await asyncio.sleep(0.05)
        assert len(await made.catalog.recordings.find_all()) == 1
        made.objects.full = set()
        made.recorder.check_ended()
        (video,) = await made.all_over()
        await made.check(video)


async def test_posters_of_the_stream_become_the_videos(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        for label in ("720p", "360p"):
            await made.disk.put(f"live/{HASH}/poster/{label}.jpg", label.encode())
        await made.disk.put(f"live/{HASH}/poster/strange.jpg", b"x")
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await publication.finish()
        (video,) = await made.all_over()
        assert video.posters == "poster-1-1"
        assert video.poster_labels == ("360p", "720p")
        await made.disk.put(f"live/{HASH}/poster/720p.jpg", b"another")
        kept = await made.disk.get(f"videos/{video.hash}/poster-1-1/720p.jpg")
        assert kept == b"720p"


async def test_a_deleted_streams_recording_becomes_a_video_for_its_owner(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open(keep_days=3)
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 20)
        await made.caught_up(publication)
        (stream,) = await made.catalog.streams.find_all()
        await made.catalog.streams.remove(stream.id, now_us=NOON_US, by=None)
        await publication.finish()
        await made.recorder.release(HASH)
        await made.disk.delete_tree(f"live/{HASH}")
        (video,) = await made.all_over()
        await made.check(video)
        assert video.title.startswith("Morning")
        assert (video.hidden, video.published) == (True, False)
        assert len(made.playlist(video, TOP.name).segments) == 20
        assert await made.catalog.recordings.expire(NOON_US + 3 * DAY_US - 1) is None
        assert await made.catalog.recordings.expire(NOON_US + 3 * DAY_US) == video.hash


@pytest.mark.parametrize("has_pages", [True, False], ids=["with its pages", "without them"])
async def test_a_recording_of_a_restored_catalog_does_not_cost_the_video_it_became(
    tmp_path: Path, has_pages: bool
) -> None:
    """The backup was made while the run was on air; by now its video is all that is left of it.

    It becomes that video again, unless it was recorded by a version that removed the pages.
    """
    backup = tmp_path / "backup.db"
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.caught_up(publication)
        await asyncio.to_thread(run_sql, tmp_path / "catalog.db", f"VACUUM INTO '{backup}'")
        await publication.finish()
        made.recorder.check_ended()
        [video] = await made.all_over()
        await made.check(video)
        if not has_pages:
            await made.disk.delete_tree(f"videos/{video.hash}/1-1/record")
        before = await made.disk.addresses(f"videos/{video.hash}")
        await made.disk.delete_tree(f"live/{HASH}")
    for ending in ("-wal", "-shm"):
        (tmp_path / f"catalog.db{ending}").unlink(missing_ok=True)
    backup.replace(tmp_path / "catalog.db")
    async with run_recorder(tmp_path, now_us=NOON_US + 120_000_000) as made:
        if has_pages:
            [again] = await made.all_over()
            assert (again.hash, again.length_us) == (video.hash, video.length_us)
            await made.check(again)
            assert await made.disk.addresses(f"videos/{video.hash}") == before
            return
        assert await made.all_over() == []
        await until(made.is_bare)
        trash = await made.disk.addresses("trash")
        assert [each.split("/", 2)[2] for each in trash] == before


async def test_a_recording_that_another_host_has_just_begun_is_not_over(tmp_path: Path) -> None:
    """Its row comes a moment before the first state of its run."""
    async with run_recorder(tmp_path, now_us=NOON_US + 119_000_000) as made:
        row = await made.catalog.recordings.begin(HASH, RUN, 7, NOON_US)
        assert row is not None
        made.recorder.check_ended()
        await asyncio.sleep(0.3)  # time in which it would be dropped
        assert await made.catalog.recordings.find_all() == (row,)
    async with run_recorder(tmp_path, now_us=NOON_US + 120_000_000) as made:
        assert await made.all_over() == []


async def test_a_fault_of_the_search_for_ended_runs_ends_no_recording_of_a_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_recorder(tmp_path) as made:
        publication = await made.open()
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await steps(made, maker, publication, 3)
        await made.caught_up(publication)
        with monkeypatch.context() as faulty:
            # A bug of ours: it finds rows that are none.
            faulty.setattr(made.catalog.recordings, "find_all", lambda: asyncio.sleep(0, [None]))
            for _ in range(2):
                made.recorder.check_ended()
                await until(lambda: "recordings not looked for" in caplog.text)
        await steps(made, maker, publication, 3)
        await publication.finish()
        (video,) = await made.all_over()
        assert video.length_us == 6 * 2_000_000
    logged = [each for each in caplog.records if each.msg == "recordings not looked for"]
    assert [each.exc_info is not None for each in logged] == [True]
