"""Observers of a run: any number, told in order; one that fails or is slow costs it nothing."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from delivery.run.observers import ObservedRun, QueueingObserver, RunObserver
from delivery.run.publication import Publication
from delivery.run.run_state import RunState, Step
from media.hls.playlist import PartialSegment
from media.hls.segment import EpochStart
from media.ticks import VIDEO_SCALE
from tests.support.storage.engine_reports import (
    NOON_US,
    ORIGIN,
    TOP,
    PublicationFixture,
    ReportMaker,
    append_all,
    begin_epoch,
)

PART = VIDEO_SCALE // 2


class Listener(RunObserver):
    """Keeps what it hears of the picture."""

    def __init__(self) -> None:
        self.heard: list[str | int] = []

    def on_source(self, start: EpochStart) -> None:
        self.heard.append(f"source {start.epoch}")

    def on_part(self, rendition: str, part: PartialSegment, data: bytes) -> None:
        if rendition == TOP.name:
            assert data
            self.heard.append(part.uri)

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        assert state.next_sequence > step.sequence
        self.heard.append(step.sequence)

    def on_ended(self) -> None:
        self.heard.append("end")


class Failing(RunObserver):
    """Fails whenever it is told of a step."""

    def __init__(self) -> None:
        self.calls = 0

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        self.calls += 1
        raise LookupError("no room")

    def on_ended(self) -> None:
        self.calls += 1


@pytest.fixture
async def publication(tmp_path: Path) -> Publication:
    return await PublicationFixture(tmp_path).open()


async def two_steps(publication: Publication) -> None:
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    start = EpochStart(epoch=0, start=ORIGIN, came_us=NOON_US)
    await publication.append(start)
    for _ in range(2):
        await append_all(publication, maker.step(2 * PART, part=PART))
    await publication.finish()


async def test_each_observer_hears_of_sources_parts_steps_and_the_end(
    publication: Publication,
) -> None:
    one, other = Listener(), Listener()
    publication.add_observer(lambda _: one)
    publication.add_observer(lambda _: other)
    await two_steps(publication)
    assert one.heard == ["source 0", "0.0.m4s", "0.1.m4s", 0, "0.2.m4s", "1.1.m4s", 1, "end"]
    assert other.heard == one.heard


async def test_an_observer_that_fails_is_logged_and_told_no_more(
    publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    failing, other = Failing(), Listener()
    publication.add_observer(lambda _: failing)
    publication.add_observer(lambda _: other)
    await two_steps(publication)
    assert failing.calls == 1
    assert caplog.messages.count("observer of a run failed") == 1
    assert [each for each in other.heard if isinstance(each, int)] == [0, 1]


async def test_an_observer_that_fails_at_what_was_before_is_told_no_more(
    publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    for _ in range(3):
        await append_all(publication, maker.step())
    failing = Failing()
    publication.add_observer(lambda _: failing)
    await append_all(publication, maker.step())
    assert failing.calls == 1


async def test_an_observer_that_cannot_be_made_costs_the_others_nothing(
    publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(run: ObservedRun) -> RunObserver:
        raise LookupError(run.stream)

    other = Listener()
    publication.add_observer(fail)
    publication.add_observer(lambda _: None)
    publication.add_observer(lambda _: other)
    await two_steps(publication)
    assert caplog.messages.count("observer of a run failed") == 1
    assert other.heard[-1] == "end"


class Slow(QueueingObserver[int]):
    """Queues the numbers of steps, up to three."""

    def __init__(self, run: ObservedRun) -> None:
        super().__init__(run, 3)

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        self.put(step.sequence)


async def test_an_observer_that_is_slow_misses_the_oldest_which_is_logged_once(
    publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker)
    slow: list[Slow] = []

    def make(run: ObservedRun) -> Slow:
        slow.append(Slow(run))
        return slow[0]

    publication.add_observer(make)
    for _ in range(5):
        await append_all(publication, maker.step())
    await publication.finish()
    assert [await slow[0].next() for _ in range(4)] == [2, 3, 4, None]
    assert caplog.messages.count("observer of a run too slow") == 1


async def test_the_end_of_a_run_waits_for_its_observers_but_not_long(
    publication: Publication, caplog: pytest.LogCaptureFixture
) -> None:
    finished: list[str] = []

    class Releasing(RunObserver):
        def __init__(self, name: str, seconds: float) -> None:
            self.name, self.seconds = name, seconds

        async def release(self) -> None:
            await asyncio.sleep(self.seconds)
            finished.append(self.name)
            assert self.name != "failing"

    publication.add_observer(lambda _: Releasing("never", 3600.0))
    publication.add_observer(lambda _: Releasing("failing", 0.0))
    publication.add_observer(lambda _: Releasing("soon", 0.02))
    async with asyncio.timeout(30):
        await publication.release_observers()
    assert finished == ["failing", "soon"]
    assert caplog.messages.count("observer of a run failed") == 1
