"""A host disappears, and the next one continues after what viewers saw, which a real Redis has."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from delivery.edge.publishing import PublishingEdge
from delivery.edge.redis import RedisEdgeStore, open_edge_store
from delivery.run.observers import RunObserver
from delivery.run.publication import Publication
from delivery.run.run_objects import SOLE_OWNER, RunOwner
from delivery.run.run_state import RunState, Step
from media.hls.playlist import PlaylistSegment
from media.hls.timeline import Timeline
from media.ladder import AUDIO_RENDITION
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.redis_server import RedisServer, redis_server
from tests.support.storage.edge_runs import FOLDER, VARIANTS, published
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    ORIGIN,
    RUN,
    TOP,
    FailingObjects,
    Killed,
    Report,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    on_disk,
    open_run,
    resume_run,
    variants,
)

NAMES = (TOP.name, LOW.name, AUDIO_RENDITION)
FIRST, SECOND, THIRD = (RunOwner(generation=number, fenced=True) for number in (1, 2, 3))
PART = 45_000
TWO = 180_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncGenerator[RedisEdgeStore, None]:
    server.command("FLUSHALL")
    async with open_edge_store(server.url, namespace="one") as opened:
        yield opened


def interleaved(reports: list[Report]) -> list[Report]:
    """Return a step's reports as an engine sends them: a part of each rendition, then the next."""
    by_name = [[each for each in reports if each.rendition == name] for name in NAMES]
    return [report for row in zip_longest(*by_name) for report in row if report is not None]


class StepObserver(RunObserver):
    """Keeps the steps that it hears of, as a recording does."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        del state, codecs
        self.steps.append(step)


class Host(NamedTuple):
    """A host that makes the run, with its own view of the shared store and of Redis."""

    objects: FailingObjects
    owner: RunOwner
    edge: PublishingEdge
    publication: Publication
    maker: ReportMaker

    async def show(self, *reports: Report) -> None:
        """Show reports to viewers, and store nothing."""
        for report in reports:
            await self.publication.append(report)
            await self.edge.publish()

    async def make(self, steps: int, *, discontinuity: bool = False) -> None:
        """Show and store some steps."""
        for number in range(steps):
            reports = self.maker.step(discontinuity=discontinuity and number == 0, part=PART)
            await append_all(self.publication, interleaved(reports))
        await self.edge.publish()

    async def begin(self) -> None:
        """Begin another source."""
        await begin_epoch(self.publication, self.maker)


async def first_host(disk: DiskObjects, store: RedisEdgeStore, owner: RunOwner = FIRST) -> Host:
    objects, edge = FailingObjects(disk), PublishingEdge(store)
    publication = await open_run(objects, edge, ManualClock(), owner=owner)
    host = Host(objects, owner, edge, publication, ReportMaker(TOP, LOW, salt="first"))
    await host.begin()
    return host


async def next_host(disk: DiskObjects, store: RedisEdgeStore, owner: RunOwner = SECOND) -> Host:
    objects, edge = FailingObjects(disk), PublishingEdge(store)
    publication = await resume_run(objects, edge, ManualClock(), owner=owner)
    assert publication is not None
    await edge.publish()
    maker = ReportMaker.continuing(publication, salt=f"owner {owner.generation}")
    return Host(objects, owner, edge, publication, maker)


async def timelines(store: RedisEdgeStore) -> dict[str, Timeline]:
    state = await published(store)
    assert state.folder == FOLDER
    return dict(state.timelines)


def listed(timeline: Timeline) -> dict[int, PlaylistSegment]:
    return dict(enumerate(timeline.segments, timeline.sequence))


def in_text(segments: Iterable[PlaylistSegment]) -> tuple[PlaylistSegment, ...]:
    """Return segments as they are read from a text, which has no media times."""
    return tuple(msgspec.structs.replace(each, start=None) for each in segments)


async def check_unchanged(
    store: RedisEdgeStore, before: dict[str, Timeline], host: Host, disk: DiskObjects
) -> None:
    """Check that the next host shows and stores all that viewers saw, as they saw it."""
    after = await timelines(store)
    assert set(after) == set(before) == set(NAMES)
    assert len({each.next_msn for each in after.values()}) == 1
    assert len({tuple(one.discontinuity for one in each.segments) for each in after.values()}) == 1
    seen = {
        name: {*listed(each), each.next_msn - (not each.parts)} for name, each in before.items()
    }
    assert await host.publication.store_pending() == 0
    for name, old in before.items():
        new = after[name]
        assert new.sequence >= old.sequence
        segments = listed(new)
        for number, segment in listed(old).items():
            assert segments.get(number, segment) == segment
        gaps = {number for number, segment in segments.items() if segment.gap}
        assert gaps == set[int]().union(*seen.values()) - seen[name]
        assert min((segments[number].duration for number in gaps), default=PART) >= PART
        if old.opened is not None and old.parts:
            closed = new.recent[old.next_msn - new.next_msn]
            assert closed.parts == old.parts
            assert closed.segment == PlaylistSegment(
                uri=f"{old.next_msn}.m4s",
                duration=sum(part.duration for part in old.parts),
                map_uri=old.opened.map_uri,
                discontinuity=old.opened.discontinuity,
                wall_us=old.opened.wall_us,
                start=old.opened.start,
            )
            assert old.opened.start is not None
        assert on_disk(disk, name).segments == in_text(new.segments)
        for closed in new.recent:
            if closed.parts:
                addresses = [f"{FOLDER}/{name}/{part.uri}" for part in closed.parts]
                parts = await store.read_parts(addresses, host.owner.generation)
                whole = b"".join(parts[address] for address in addresses)
                assert await disk.get(f"{FOLDER}/{name}/{closed.segment.uri}") == whole
                assert b"first" in whole


async def show_until(host: Host, count: int, *, stored: bool) -> bool:
    """Show so many reports of two steps, the second of another source; False if there are less."""
    reports = interleaved(host.maker.step(part=PART))
    await host.show(*reports[:count])
    if stored:
        await host.publication.store_pending()
    if count <= len(reports):
        return True
    host.maker.epoch += 1
    await host.publication.prepare(host.maker.epoch, host.maker.renditions, NOON_US + 8_000_000)
    await host.show(*host.maker.begin())
    following = interleaved(host.maker.step(discontinuity=True, part=PART))
    await host.show(*following[: count - len(reports)])
    if stored:
        await host.publication.store_pending()
    return count <= len(reports) + len(following)


@pytest.mark.parametrize("stored", [True, False])
async def test_the_next_host_continues_after_any_report_that_viewers_saw(
    tmp_path: Path, server: RedisServer, store: RedisEdgeStore, stored: bool
) -> None:
    count = 0
    while True:
        server.command("FLUSHALL")
        with DiskObjects(tmp_path / str(count)) as disk:
            host = await first_host(disk, store)
            await host.make(3)
            if not await show_until(host, count, stored=stored):
                break
            before = await timelines(store)
            host = await next_host(disk, store)
            await check_unchanged(store, before, host, disk)
            await host.begin()
            await host.make(2, discontinuity=True)
            for name, timeline in (await timelines(store)).items():
                assert [segment.uri for segment in timeline.segments] == [
                    f"{number}.m4s" for number in range(timeline.sequence, timeline.next_msn)
                ]
                assert on_disk(disk, name).segments == in_text(timeline.segments)
        count += 1
    assert count > 30


async def test_what_the_edge_has_lost_is_a_gap_of_the_listed_duration(
    tmp_path: Path, server: RedisServer, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        reports = interleaved(host.maker.step(part=PART)) + interleaved(host.maker.step(part=PART))
        await host.show(*reports[:-12])  # the second step has a part of each rendition
        for lost in ("720p/3.1.m4s", "audio/3.4.m4s"):  # each in its place; the latter begins 4
            assert server.command("DEL", f"one.edge:part:1:{FOLDER}/{lost}") == 1
        host = await next_host(disk, store)
        assert await host.publication.store_pending() == 0
        after = await timelines(store)
        for name, gap, duration in ((TOP.name, 3, TWO), (AUDIO_RENDITION, 4, PART)):
            numbers = {number for number, one in listed(after[name]).items() if one.gap}
            assert numbers == {gap}
            assert listed(after[name])[gap].duration == duration
        assert not any(one.gap for one in after[LOW.name].segments)
        for name, timeline in after.items():
            assert on_disk(disk, name).segments == in_text(timeline.segments)


async def test_a_run_of_which_no_step_is_stored_goes_on_after_any_report_once_viewers_know_it(
    tmp_path: Path, server: RedisServer, store: RedisEdgeStore
) -> None:
    """Another host continues every second one, and a restarted process the others."""
    known = 0
    for count in range(0, 100, 2):
        first, second = ((FIRST, SECOND), (SOLE_OWNER, SOLE_OWNER))[count // 2 % 2]
        server.command("FLUSHALL")
        with DiskObjects(tmp_path / str(count)) as disk:
            host = await first_host(disk, store, first)
            if not await show_until(host, count, stored=False):
                break
            assert not list(disk.root.rglob("*.m3u8"))
            seen = await published(store)
            if VARIANTS not in seen.playlists:
                edge = PublishingEdge(store)
                assert await resume_run(disk, edge, ManualClock(), owner=second) is None
                assert await disk.folder_names(f"live/{HASH}") == set()
                continue
            known += 1
            host = await next_host(disk, store, second)
            await check_unchanged(store, dict(seen.timelines), host, disk)
            await host.begin()
            await host.make(2, discontinuity=True)
            for name, timeline in (await timelines(store)).items():
                assert timeline.sequence == 0
                assert on_disk(disk, name).segments == in_text(timeline.segments)
            assert {each.uri.split("/")[0] for each in variants(disk).variants} == {RUN}
    assert known > 10


async def test_the_first_steps_of_a_run_are_stored_and_recorded_as_viewers_saw_them(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    """The second host stores nothing, either, and the first one wakes up under the third."""
    with DiskObjects(tmp_path) as disk:
        former = await first_host(disk, store)
        reports = interleaved(former.maker.step(part=PART)) + interleaved(
            former.maker.step(part=PART)
        )
        await former.show(*reports[:-9])
        before = await timelines(store)
        await next_host(disk, store)
        host = await next_host(disk, store, THIRD)
        observer = StepObserver()
        host.publication.add_observer(lambda _: observer)
        assert await append_until_full(former.publication, reports[-9:]) > 0
        await former.edge.publish()
        await check_unchanged(store, before, host, disk)
        await host.begin()
        await host.make(1, discontinuity=True)
        steps = observer.steps
        assert [(step.sequence, step.epoch, step.discontinuity) for step in steps] == [
            (0, 0, False),
            (1, 0, False),
            (2, 1, True),
        ]
        assert {name: each.start for name, each in steps[0].segments.items()} == dict.fromkeys(
            NAMES, ORIGIN
        )
        assert steps[0].wall_us(ORIGIN) == NOON_US
        assert steps[2].segments[TOP.name].start == steps[1].end == ORIGIN + TWO + TWO // 2
        # The first host may store more init sections of numbers that are next.
        assert all(each.init >= 8 for each in steps[2].segments.values())


async def test_a_part_of_the_first_step_that_the_edge_has_lost_makes_a_gap(
    tmp_path: Path, server: RedisServer, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        assert server.command("DEL", f"one.edge:part:1:{FOLDER}/{TOP.name}/0.1.m4s") == 1
        host = await next_host(disk, store)
        assert await host.publication.store_pending() == 0
        for name, timeline in (await timelines(store)).items():
            (segment,) = timeline.segments
            assert (segment.gap, segment.duration) == (name == TOP.name, 2 * PART)
            assert on_disk(disk, name).segments == in_text([segment])


async def test_a_run_whose_encoder_does_not_return_ends_with_what_viewers_saw_of_its_first_step(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        later_us = NOON_US + 600_000_000
        edge = PublishingEdge(store)
        following = await open_run(disk, edge, ManualClock(), now_us=later_us, owner=SECOND)
        assert following.run != RUN
        for name in NAMES:
            playlist = on_disk(disk, name)
            assert playlist.ended
            (segment,) = playlist.segments
            assert (segment.uri, segment.duration, segment.gap) == ("0.m4s", TWO // 2, False)


@pytest.mark.parametrize("cause", ["empty", "away", "behind"])
async def test_without_what_viewers_saw_the_numbers_that_they_may_have_seen_are_gaps(
    tmp_path: Path, server: RedisServer, store: RedisEdgeStore, cause: str
) -> None:
    """Redis has been emptied, cannot be reached, or missed the newest stored step and more."""
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        if cause == "behind":
            await append_all(host.publication, host.maker.step())
        for report in host.maker.step():
            await host.publication.append(report)
        if cause == "empty":
            server.command("FLUSHALL")
        if cause == "away":
            server.stop()
        edge = PublishingEdge(store)
        publication = await resume_run(disk, edge, ManualClock(), owner=SECOND)
        if cause == "away":
            server.start()
        assert publication is not None
        stored = 4 if cause == "behind" else 3
        assert publication.next_sequence > stored
        for name in NAMES:
            timeline = edge.timeline(f"{FOLDER}/{name}/index.m3u8")
            assert timeline is not None
            gaps = {number: one.duration for number, one in listed(timeline).items() if one.gap}
            assert gaps == dict.fromkeys(range(stored, publication.next_sequence), 0)


async def test_a_host_that_wakes_up_shows_and_stores_nothing_in_the_place_of_the_next_one(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    """It has made the rest of a segment of which viewers saw the beginning."""
    with DiskObjects(tmp_path) as disk:
        former = await first_host(disk, store)
        await former.make(3)
        reports = interleaved(former.maker.step(part=PART))
        await former.show(*reports[:9])  # the start and two parts of each rendition
        before = await timelines(store)
        for report in reports[9:]:
            await former.publication.append(report)
        for name in NAMES:  # which was on its way to the store when the host froze
            await disk.put(f"{FOLDER}/{name}/3.m4s", b"all four parts")
        host = await next_host(disk, store)
        after = await timelines(store)
        await former.edge.publish()
        assert await append_until_full(former.publication, former.maker.step()) > 0
        await former.edge.publish()
        assert await timelines(store) == after
        await check_unchanged(store, before, host, disk)
        await append_until_full(former.publication, former.maker.step())
        await check_unchanged(store, before, host, disk)
        await host.begin()
        await host.make(2, discontinuity=True)
        for name, timeline in (await timelines(store)).items():
            assert on_disk(disk, name).segments == in_text(timeline.segments)
            assert not any(segment.gap for segment in timeline.segments)


async def test_a_recording_gets_what_the_next_host_stores(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        host = await next_host(disk, store)
        observer = StepObserver()
        host.publication.add_observer(lambda _: observer)
        await host.begin()
        await host.make(2, discontinuity=True)
        steps = observer.steps
        assert [(step.sequence, step.discontinuity) for step in steps] == [
            *((number, False) for number in range(4)),
            (4, True),
            (5, False),
        ]
        assert [step.epoch for step in steps] == [0, 0, 0, 0, 1, 1]
        shown = steps[3].segments
        assert set(shown) == set(NAMES)
        for name, segment in shown.items():
            assert (segment.start, segment.duration) == (steps[2].end, TWO // 2)
            stat = await disk.stat(f"{FOLDER}/{name}/3.m4s")
            assert stat is not None
            assert segment.size == stat.size > 0
        # The next source begins where they end, and not earlier than the last of them.
        assert steps[4].segments[TOP.name].start == steps[3].end
        dates = [step.wall_us(step.segments[TOP.name].start) for step in steps]
        assert dates == sorted(dates)


async def test_a_restarted_process_continues_its_own_run(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    """No other process may make the run, so its generation stays, and so do the names of parts."""
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store, SOLE_OWNER)
        await host.make(3)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        before = await timelines(store)
        host = await next_host(disk, store, SOLE_OWNER)
        await check_unchanged(store, before, host, disk)
        await host.begin()
        await host.make(2, discontinuity=True)
        for timeline in (await timelines(store)).values():
            assert not any(segment.gap for segment in timeline.segments)


async def test_a_rung_that_was_shed_stays_a_gap(tmp_path: Path, store: RedisEdgeStore) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        reports = host.maker.step(gaps=(LOW.name,), part=PART)
        await host.show(*interleaved(reports))
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        before = await timelines(store)
        host = await next_host(disk, store)
        after = await timelines(store)
        assert await host.publication.store_pending() == 0
        for name in NAMES:
            segments = list(after[name].segments)
            assert segments[:4] == list(before[name].segments)
            assert [segment.gap for segment in segments] == [0, 0, 0, name == LOW.name, 0]
            assert on_disk(disk, name).segments == in_text(segments)


async def test_a_third_host_continues_what_the_second_has_not_stored(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        before = await timelines(store)
        await next_host(disk, store)
        host = await next_host(disk, store, THIRD)
        await check_unchanged(store, before, host, disk)


async def test_segments_that_could_not_be_stored_stay_listed(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    """The bucket refused a rendition's segments, which the first host kept at the edge."""
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(2)
        host.objects.full = {f"{LOW.name}/2.m4s", f"{LOW.name}/3.m4s"}
        for _ in range(3):
            await append_until_full(host.publication, interleaved(host.maker.step(part=PART)))
        await host.edge.publish()
        assert [one.gap for one in on_disk(disk, LOW.name).segments] == [0, 0, 1, 1, 0]
        before = await timelines(store)
        host = await next_host(disk, store)
        after = await timelines(store)
        for name in NAMES:
            assert list(after[name].segments) == list(before[name].segments)
        addresses = [f"{FOLDER}/{LOW.name}/{number}.m4s" for number in (2, 3)]
        assert all(host.edge.local_part(address) for address in addresses)
        for number in (2, 3):  # from which other processes join it
            names = (f"{number - 1}.4", *(f"{number}.{index}" for index in range(1, 4)))
            parts = [f"{FOLDER}/{LOW.name}/{name}.m4s" for name in names]
            assert len(await store.read_parts(parts, SECOND.generation)) == 4
            assert len(after[LOW.name].recent[number].parts) == 4


async def test_a_run_whose_end_viewers_saw_is_ended(tmp_path: Path, store: RedisEdgeStore) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        host.objects.writes_left = 0
        with pytest.raises(Killed):
            await host.publication.finish()
        await host.edge.publish()
        before = await timelines(store)
        edge = PublishingEdge(store)
        assert await resume_run(disk, edge, ManualClock(), owner=SECOND) is None
        await edge.publish()
        for name, timeline in (await timelines(store)).items():
            assert timeline.ended
            assert list(timeline.segments) == list(before[name].segments)
            assert on_disk(disk, name).ended
            assert on_disk(disk, name).segments == in_text(timeline.segments)


async def test_the_next_run_ends_the_one_before_where_viewers_saw_its_end(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(3)
        await host.show(*interleaved(host.maker.step(part=PART))[:9])
        later_us = NOON_US + 600_000_000
        edge = PublishingEdge(store)
        await open_run(disk, edge, ManualClock(), now_us=later_us, owner=SECOND)
        for name in NAMES:
            newest = on_disk(disk, name).segments[-1]
            assert (newest.uri, newest.duration, newest.gap) == ("3.m4s", TWO // 2, False)


async def test_a_run_goes_on_after_more_steps_than_renditions_may_be_apart(
    tmp_path: Path, store: RedisEdgeStore
) -> None:
    """The first host could not store for minutes."""
    with DiskObjects(tmp_path) as disk:
        host = await first_host(disk, store)
        await host.make(2)
        await host.show(*(report for _ in range(70) for report in interleaved(host.maker.step())))
        host = await next_host(disk, store)
        await host.begin()
        await host.make(2, discontinuity=True)
        assert host.publication.next_sequence == 74
