"""How a run is stored: in which order, what observers are told, and what a restart needs."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from delivery.run.observers import RunObserver
from delivery.run.run_state import RunState, Step
from media.hls.segment import InitSection
from storage.objects.disk import DiskObjects
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    RUN,
    TOP,
    FailingObjects,
    PublicationFixture,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    resume_run,
    variants,
)


class Observer(RunObserver):
    """Keeps the numbers of the steps that it hears of, negative at a discontinuity."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.ended = False

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        del state, codecs
        self.steps.append(-step.sequence if step.discontinuity else step.sequence)

    def on_ended(self) -> None:
        self.ended = True


class HangingObjects(FailingObjects):
    """A store on which writes to addresses with the end `hanging` wait until it is changed."""

    def __init__(self, disk: DiskObjects) -> None:
        super().__init__(disk)
        self.hanging: str | None = None
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        if self.hanging is not None and address.endswith(self.hanging):
            self.reached.set()
            await self.released.wait()
        await super().put(address, data, vital=vital)


def state(publication_fixture: PublicationFixture) -> RunState:
    path = publication_fixture.disk.path(f"live/{HASH}/{RUN}/state.json")
    return msgspec.json.decode(path.read_bytes(), type=RunState)


async def test_an_observer_is_told_of_steps_with_media_and_of_the_holes_between_them(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    observer = Observer()
    publication.add_observer(lambda _: observer)
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    for gaps in ((), ("720p",), ("720p", "360p"), (), ()):
        await append_all(publication, maker.step(gaps=gaps))
    assert observer.steps == [0, 1, -3, 4]
    late = Observer()
    publication.add_observer(lambda _: late)
    assert late.steps == observer.steps
    await publication.finish()
    assert late.ended


async def test_a_step_is_reported_although_its_notes_cannot_be_written(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    observer = Observer()
    publication.add_observer(lambda _: observer)
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    publication_fixture.objects.full = {"/state.json"}
    assert await append_until_full(publication, maker.step()) == 1
    assert observer.steps == [0]


async def test_the_state_counts_on_one_more_step_than_is_stored_while_the_run_lasts(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    assert (state(publication_fixture).next_sequence, state(publication_fixture).opened) == (1, 2)
    await append_all(publication, maker.step()[:3])
    await append_all(publication, maker.step()[:0])
    await publication.suspend()  # closes what had begun
    assert (state(publication_fixture).next_sequence, state(publication_fixture).opened) == (2, 2)


async def test_a_run_is_stored_before_viewers_know_it(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    assert not publication.is_playable
    stored = state(publication_fixture)
    assert (stored.renditions, stored.tail, stored.announced) == (maker.renditions, (), None)
    assert list(publication_fixture.disk.root.rglob("*.m3u8")) == []
    await publication.finish()
    assert not publication_fixture.disk.path(f"live/{HASH}/{RUN}").exists()


async def test_resuming_again_and_again_loses_no_number(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    for _ in range(2):
        idle = await resume_run(
            publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
        )
        assert idle is not None
        assert idle.next_sequence == 2
    again = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert again is not None
    # Once the run has a source, viewers may see numbers that a restart must not use again.
    await again.prepare(1, maker.renditions, 0)
    await again.store_pending()
    last = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert last is not None
    assert last.next_sequence == 3


@pytest.mark.parametrize("hanging", ["720p/1.m4s", "360p/1.m4s", "audio/1.m4s", "720p/init-0.mp4"])
async def test_segments_whose_storing_was_cancelled_are_stored_before_their_step_is_listed(
    publication_fixture: PublicationFixture, hanging: str
) -> None:
    """A run that is cut short ends while a slow disk still has to store its last segments."""
    objects = publication_fixture.objects = HangingObjects(publication_fixture.disk)
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    await publication.prepare(maker.epoch, maker.renditions, 0)
    for report in (*maker.begin(), *maker.step(), *maker.step()):
        await publication.append(report)
    objects.hanging = hanging
    async with asyncio.TaskGroup() as tasks:
        storing = tasks.create_task(publication.store_pending())
        await objects.reached.wait()
        storing.cancel()
    objects.hanging = None
    await publication.finish()
    for name in (TOP.name, LOW.name, "audio"):
        assert publication_fixture.uris(name) == ["0.m4s", "1.m4s"]
        assert publication_fixture.gaps(name) == []


@pytest.mark.parametrize("hanging", ["720p/index.m3u8", f"{HASH}/index.m3u8"])
async def test_codecs_that_change_while_playlists_are_written_are_written_as_well(
    publication_fixture: PublicationFixture, hanging: str
) -> None:
    objects = publication_fixture.objects = HangingObjects(publication_fixture.disk)
    publication, maker = await publication_fixture.begin(TOP)
    for report in maker.step():
        await publication.append(report)
    objects.hanging = hanging
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(publication.store_pending())
        await objects.reached.wait()
        number = publication.next_inits[TOP.name]
        init = InitSection(rendition=TOP.name, number=number, codecs="avc1.640028", data=b"init")
        await publication.append(init)
        objects.hanging = None
        objects.released.set()
    maker.inits[TOP.name] = number + 1
    await append_all(publication, maker.step())
    assert variants(publication_fixture.disk).variants[0].codecs == ("avc1.640028", "mp4a.40.2")
