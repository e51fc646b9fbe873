"""Clips are cut out of the live window and out of recordings, at the bounds of segments."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from delivery.recording.clips import ClipSource, NotAvailable, find_source, make_clip
from delivery.recording.pages import TimeRange
from delivery.run.publication import Publication
from delivery.run.run_state import LiveWindow
from media.hls.m3u8 import parse
from media.hls.playlist import MultivariantPlaylist
from media.ladder import AUDIO_RENDITION
from storage.catalog.records.common import Change
from storage.catalog.records.videos import WholeVideo
from storage.catalog.videos.clips import NewClip
from storage.catalog.videos.recordings import BORROWED_POSTERS
from storage.cleanup.orphans import AGE_US, remove_orphans
from storage.objects.base import ObjectMissing
from storage.wall_clock import wall_clock_us
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    FailingObjects,
    Killed,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
)
from tests.support.storage.recorded_run import RecorderFixture, run_recorder

CLIP = "abcdefCLIP01"
SECOND = 1_000_000


def time(start: float, end: float) -> TimeRange:
    """Return a time by seconds from the run's beginning."""
    return TimeRange(NOON_US + round(start * SECOND), NOON_US + round(end * SECOND))


async def go_live(
    fixture: RecorderFixture, number: int, *, recorded: bool, maker: ReportMaker | None = None
) -> tuple[Publication, ReportMaker]:
    """Begin a run of so many steps of 2 s; the live window has the last six."""
    return await fixture.on_air(
        number, maker=maker or ReportMaker(TOP, LOW), keep_days=7 if recorded else None
    )


async def find_clip(fixture: RecorderFixture, wanted: TimeRange) -> ClipSource:
    return await find_source(
        fixture.objects, fixture.catalog.clips, await stream_of(fixture), HASH, wanted
    )


async def stream_of(fixture: RecorderFixture) -> int:
    (record,) = await fixture.catalog.streams.find_all()
    return record.id


async def cut(fixture: RecorderFixture, wanted: TimeRange, hash_: str = CLIP) -> WholeVideo:
    """Make a clip and its video."""
    source = await find_clip(fixture, wanted)
    clip = NewClip(
        hash=hash_,
        made=await make_clip(fixture.objects, source, hash_),
        from_us=source.time.from_us,
        title=None,
        video=source.video,
    )
    video = await fixture.catalog.clips.add(
        await stream_of(fixture), clip, Change(NOON_US), str.lower
    )
    assert video is not None
    return video


def uris(fixture: RecorderFixture, video: WholeVideo, name: str = TOP.name) -> list[str]:
    return [one.uri for one in fixture.playlist(video.video, name).segments]


def numbered(numbers: Sequence[int]) -> list[str]:
    return [f"{number}.m4s" for number in numbers]


async def is_exactly(fixture: RecorderFixture, video: WholeVideo, numbers: Sequence[int]) -> None:
    """Check that a clip has these segments in all renditions, and exactly the objects it names."""
    record = video.video
    folder = fixture.folder(record)
    named = {folder / "index.m3u8"}
    for name in (TOP.name, LOW.name, AUDIO_RENDITION):
        assert uris(fixture, video, name) == numbered(numbers)
        playlist = fixture.playlist(record, name)
        assert not playlist.segments[0].discontinuity
        named |= {folder / name / one.uri for one in playlist.segments if not one.gap}
        named |= {folder / name / one.map_uri for one in playlist.segments if one.map_uri}
        named.add(folder / name / "index.m3u8")
    addresses = await fixture.disk.addresses(f"videos/{record.hash}")
    assert {fixture.disk.path(address) for address in addresses} == named
    assert record.storage_size == record.size == sum(path.stat().st_size for path in named)
    assert record.length_us == len(numbers) * 2 * SECOND


async def test_a_clip_has_the_posters_of_its_stream_until_it_has_its_own(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        await fixture.disk.put(f"live/{HASH}/poster/720p.jpg", b"720p")
        await go_live(fixture, 10, recorded=False)
        video = (await cut(fixture, time(10, 14))).video
        assert (video.posters, video.poster_labels) == (BORROWED_POSTERS, ("720p",))
        assert await fixture.disk.get(f"videos/{video.hash}/{BORROWED_POSTERS}/720p.jpg") == b"720p"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        pytest.param(time(10, 14), [5, 6], id="on the bounds"),
        pytest.param(time(10.1, 13.9), [5, 6], id="within the same segments"),
        pytest.param(time(9.9, 14.1), [4, 5, 6, 7], id="outwards"),
        pytest.param(time(10.9995, 12.0004), [5], id="the milliseconds of a playlist"),
        pytest.param(time(8, 20), [4, 5, 6, 7, 8, 9], id="the whole window"),
        pytest.param(time(7.9995, 20.0005), [4, 5, 6, 7, 8, 9], id="rounded outwards"),
    ],
)
async def test_a_clip_of_the_live_window_is_whole_segments(
    tmp_path: Path, wanted: TimeRange, numbers: list[int]
) -> None:
    async with run_recorder(tmp_path) as fixture:
        await go_live(fixture, 10, recorded=False)
        video = await cut(fixture, wanted)
        await is_exactly(fixture, video, numbers)
        first = fixture.playlist(video.video, TOP.name).segments[0]
        assert first.wall_us is not None
        assert abs(first.wall_us - (NOON_US + numbers[0] * 2 * SECOND)) <= 1000
        index = parse((fixture.folder(video.video) / "index.m3u8").read_text())
        assert isinstance(index, MultivariantPlaylist)
        assert index.variants[0].codecs == ("avc1.64001F", "mp4a.40.2")
        assert index.variants[0].frame_rate == 30_000
        # One file with two names, for as long as the window has it.
        live = fixture.disk.path(f"live/{HASH}/{RUN}/{TOP.name}/{numbers[0]}.m4s")
        assert live.samefile(fixture.folder(video.video) / TOP.name / f"{numbers[0]}.m4s")


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(time(7, 12), id="before"),
        pytest.param(time(12, 20.1), id="after"),
        pytest.param(time(-500, -400), id="long before"),
        pytest.param(time(500, 600), id="long after"),
    ],
)
async def test_what_the_window_has_not_all_of_is_refused_with_what_there_is(
    tmp_path: Path, wanted: TimeRange
) -> None:
    async with run_recorder(tmp_path) as fixture:
        await go_live(fixture, 10, recorded=False)
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, wanted)
        assert refused.value.available == (time(8, 20),)


async def are_exactly(
    fixture: RecorderFixture, subtests: pytest.Subtests, cases: dict[str, tuple[TimeRange, range]]
) -> None:
    """Check that clips of one run have these segments; each case is a subtest."""
    for number, (case, (wanted, numbers)) in enumerate(cases.items()):
        with subtests.test(case):
            await is_exactly(fixture, await cut(fixture, wanted, f"abcdefCLIP{number:02}"), numbers)


async def test_clips_of_a_long_window_that_is_not_recorded(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with run_recorder(tmp_path) as fixture:
        window = LiveWindow(listed_seconds=120.0, kept_seconds=124.0)
        publication = await open_run(fixture.objects, fixture.edge, fixture.clock, window=window)
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        await fixture.show(publication, maker, 70)
        cases = {
            "the beginning, within a page": (time(20, 24), range(10, 12)),
            "across pages": (time(30, 70), range(15, 35)),
            "to the newest, which have no page": (time(60, 140), range(30, 70)),
            "all of it": (time(20, 140), range(10, 70)),
        }
        await are_exactly(fixture, subtests, cases)
        # Segments that left the window still exist, but will soon be deleted.
        assert fixture.disk.path(f"live/{HASH}/{RUN}/{TOP.name}/9.m4s").exists()
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(18, 30))
        assert refused.value.available == (time(20, 140),)


async def test_a_stream_that_was_never_live_has_nothing(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(0, 10))
        assert refused.value.available == ()


async def test_clips_of_a_run_that_is_recorded_may_begin_before_the_window(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await go_live(fixture, 50, recorded=True)
        await fixture.caught_up(publication)
        assert not fixture.disk.path(f"live/{HASH}/{RUN}/{TOP.name}/0.m4s").exists()
        cases = {
            "the beginning": (time(0, 4), range(2)),
            "across pages": (time(30, 70), range(15, 35)),
            "across pages and the window": (time(60, 100), range(30, 50)),
            "all of it": (time(0, 100), range(50)),
            "the end": (time(99, 100), range(49, 50)),
        }
        await are_exactly(fixture, subtests, cases)
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(-1, 100))
        assert refused.value.available == (time(0, 100),)


async def test_a_clip_of_a_finished_recording_outlives_it(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await go_live(fixture, 40, recorded=True)
        await publication.finish()
        (recording,) = await fixture.all_over()
        video = await cut(fixture, time(21, 40))
        numbers = list(range(10, 20))
        await is_exactly(fixture, video, numbers)
        source = await find_clip(fixture, time(21, 40))
        assert source.video == recording.id
        await fixture.catalog.videos.remove(recording.id, Change(NOON_US))
        await fixture.disk.delete_tree(f"videos/{recording.hash}")
        await is_exactly(fixture, video, numbers)
        # The window of the last run still exists.
        await is_exactly(
            fixture, await cut(fixture, time(70, 80), "abcdefCLIP02"), list(range(35, 40))
        )
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(21, 40))
        assert refused.value.available == (time(68, 80),)


async def test_the_recordings_that_have_not_all_of_a_time_are_named(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await go_live(fixture, 10, recorded=True)
        await publication.finish()
        await fixture.all_over()
        await fixture.disk.delete_tree(f"live/{HASH}")
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(10, 21))
        assert refused.value.available == (time(0, 20),)
        (recording,) = await fixture.videos()
        await fixture.catalog.videos.remove(recording.id, Change(NOON_US))
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(10, 20))
        assert refused.value.available == ()


async def test_discontinuities_and_gaps_are_those_of_the_run(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await go_live(fixture, 4, recorded=False)
        maker.epoch = 1
        await begin_epoch(publication, maker, NOON_US + 8 * SECOND)
        await append_all(publication, maker.step(discontinuity=True))
        await append_all(publication, maker.step(gaps=(LOW.name,)))
        await fixture.show(publication, maker, 1)
        video = await cut(fixture, time(4, 14))
        await is_exactly(fixture, video, [2, 3, 4, 5, 6])
        for name in (TOP.name, LOW.name, AUDIO_RENDITION):
            playlist = fixture.playlist(video.video, name)
            assert [one.discontinuity for one in playlist.segments] == [
                False, False, True, False, False,
            ]  # fmt: skip
            assert [one.gap for one in playlist.segments] == [
                False, False, False, name == LOW.name, False,
            ]  # fmt: skip
        assert [one.map_uri for one in fixture.playlist(video.video, TOP.name).segments] == [
            "init-0.mp4", "init-0.mp4", "init-1.mp4", "init-1.mp4", "init-1.mp4",
        ]  # fmt: skip


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "window"])
async def test_a_rung_that_was_shed_is_a_variant_of_the_clips_in_which_it_is_whole(
    tmp_path: Path, recorded: bool
) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await go_live(fixture, 2, recorded=recorded)
        for shed in ((LOW.name,), (LOW.name,), (), ()):
            await append_all(publication, maker.step(shed=shed))
        if recorded:
            await fixture.caught_up(publication)
        variants: list[list[int]] = []
        for number, (start, end) in enumerate(((0, 4), (4, 8), (2, 10), (8, 12))):
            video = await cut(fixture, time(start, end), f"{CLIP[:-1]}{number}")
            await is_exactly(fixture, video, range(start // 2, end // 2))
            shown = fixture.variants(video.video).variants
            assert {rung.height for rung in video.rungs} == {each.height for each in shown}
            variants.append([each.height for each in shown])
            assert not any(one.gap for one in fixture.playlist(video.video, LOW.name).segments)
        both, top = [TOP.height, LOW.height], [TOP.height]
        assert variants == [both, top, top, both]


async def test_the_segment_that_is_being_made_is_not_part_of_it(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, maker = await go_live(fixture, 6, recorded=False)
        for report in maker.step()[:2]:  # a start, and one of two parts
            await publication.append(report)
        await publication.store_pending()
        with pytest.raises(NotAvailable) as refused:
            await find_clip(fixture, time(8, 13))
        assert refused.value.available == (time(0, 12),)
        await is_exactly(fixture, await cut(fixture, time(8, 12)), [4, 5])


async def test_the_window_of_the_run_before_is_there_until_the_next_one_has_a_step(
    tmp_path: Path,
) -> None:
    async with run_recorder(tmp_path) as fixture:
        publication, _ = await go_live(fixture, 6, recorded=False)
        await publication.finish()
        publication = await open_run(
            fixture.objects, fixture.edge, fixture.clock, now_us=NOON_US + 60 * SECOND
        )
        maker = ReportMaker(TOP, LOW)
        await begin_epoch(publication, maker)
        assert (await find_clip(fixture, time(2, 8))).time == time(2, 8)
        await append_all(publication, maker.step())
        with pytest.raises(NotAvailable):
            await find_clip(fixture, time(2, 8))


async def test_media_that_went_meanwhile_leave_nothing_of_a_clip(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        await go_live(fixture, 6, recorded=False)
        source = await find_clip(fixture, time(0, 12))
        await fixture.disk.delete(f"live/{HASH}/{RUN}/{LOW.name}/4.m4s")
        with pytest.raises(ObjectMissing):
            await make_clip(fixture.objects, source, CLIP)
        assert await fixture.is_bare()


async def test_a_clip_that_was_killed_leaves_what_the_cleanup_removes(tmp_path: Path) -> None:
    async with run_recorder(tmp_path) as fixture:
        await go_live(fixture, 6, recorded=False)
        source = await find_clip(fixture, time(0, 12))
        before = fixture.objects.writes
        await make_clip(fixture.objects, source, CLIP)
        writes = fixture.objects.writes - before
        await fixture.disk.delete_tree(f"videos/{CLIP}")
        assert writes > 20
        later_us = wall_clock_us() + 2 * AGE_US
        for number in range(0, writes, 3):
            # The process is killed, so it does not remove what it wrote either.
            with contextlib.suppress(Killed):
                await make_clip(FailingObjects(fixture.disk, writes=number), source, CLIP)
            remaining = await fixture.disk.addresses(f"videos/{CLIP}")
            # Sixteen objects are linked at a time, so none of the first may exist yet.
            assert remaining or number < 16
            assert await fixture.videos() == []
            # Each cleanup runs in another second, and so uses its own folder of the trash.
            await remove_orphans(
                fixture.disk, fixture.catalog.references, later_us + number * SECOND
            )
            assert await fixture.is_bare()
