import asyncio
import logging

import msgspec
import pytest

from ingest.ports import LiveState, PortError
from ingest.written import Written
from media.keys import Slot
from tests.ingest.virtual import run

HASH = "Ab3dEf6hIj9l"
STATE = LiveState(
    stream=1, hash=HASH, live=True, processing=True, on_air=Slot(0), sending=frozenset({Slot(0)}),
    no_audio=False,
)  # fmt: skip
OTHER = msgspec.structs.replace(STATE, live=False)


class Journal:
    """A journal that takes nothing for as long as it is told, or for ever waits."""

    def __init__(self, *, refusals: int = 0, hangs: bool = False) -> None:
        self.took: list[object] = []
        self.tries = 0
        self.refusals = refusals
        self.hangs = hangs

    async def changed(self, state: LiveState) -> None:
        await self._answer()
        self.took.append(state)

    async def happened(self, stream: str, kind: str, facts: dict[str, object]) -> None:
        await self._answer()
        self.took.append((stream, kind, facts))

    async def _answer(self) -> None:
        self.tries += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.refusals:
            self.refusals -= 1
            raise PortError("busy")


def test_a_state_is_written_once_and_what_is_told_comes_after_it() -> None:
    async def story() -> None:
        journal = Journal()
        written = Written(HASH, journal)
        written.tell("switched", {"to": "primary"})
        for _ in range(3):
            await written.write(STATE)
        await written.write(OTHER)
        assert journal.took == [STATE, (HASH, "switched", {"to": "primary"}), OTHER]

    run(story())


def test_what_was_refused_is_tried_again_in_its_order_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        journal = Journal(refusals=3)
        written = Written(HASH, journal)
        written.tell("switched", {"number": 1})
        written.tell("switched", {"number": 2})
        with caplog.at_level(logging.WARNING):
            for _ in range(5):
                await written.write(STATE)
        numbers = [(HASH, "switched", {"number": number}) for number in (1, 2)]
        assert journal.took == [STATE, *numbers]
        assert [record.message for record in caplog.records] == ["state not written"]

    run(story())


def test_a_journal_that_does_not_answer_holds_nobody_up_for_long() -> None:
    async def story() -> None:
        journal = Journal(hangs=True)
        written = Written(HASH, journal)
        began = asyncio.get_running_loop().time()
        await written.write(STATE)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)
        assert journal.took == []

    run(story())


def test_what_cannot_be_told_does_not_pile_up() -> None:
    async def story() -> None:
        journal = Journal()
        written = Written(HASH, journal)
        for number in range(1_000):
            written.tell("switched", {"number": number})
        await written.write(STATE)
        _, *told = journal.took
        assert len(told) < 100
        assert told[-1] == (HASH, "switched", {"number": 999})

    run(story())


def test_who_waits_for_a_state_gets_on_when_it_is_written() -> None:
    async def story() -> None:
        journal = Journal(refusals=1)
        written = Written(HASH, journal)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(written.has(lambda: STATE))
            await written.write(STATE)
            await asyncio.sleep(1)
            assert not waiting.done()
            await written.write(OTHER)
            await asyncio.sleep(1)
            assert not waiting.done()
            await written.write(STATE)
            await asyncio.sleep(1)
            assert waiting.done()

    run(story())
