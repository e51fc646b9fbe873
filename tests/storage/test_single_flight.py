"""One call serves all callers that arrive meanwhile, whatever its outcome."""

import asyncio

import pytest

from storage.errors import StorageError
from storage.single_flight import SingleFlight

pytestmark = pytest.mark.anyio


class NumberedAnswers:
    """Answers with the number of the call, when it may."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_answer = asyncio.Event()
        self.error: StorageError | None = None

    async def ask(self) -> int:
        self.calls += 1
        number = self.calls
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_callers_that_arrive_meanwhile_share_a_call() -> None:
    flight, source = SingleFlight[int](), NumberedAnswers()
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(flight.run("a", source.ask)) for _ in range(9)]
        other = tasks.create_task(flight.run("b", source.ask))
        await asyncio.sleep(0)
        source.may_answer.set()
    assert {each.result() for each in calls} == {1}
    assert other.result() == 2
    assert await flight.run("a", source.ask) == 3


async def test_an_error_is_everybodys_and_not_remembered() -> None:
    flight, source = SingleFlight[int](), NumberedAnswers()
    source.error = StorageError("it is away")

    async def ask() -> str:
        try:
            return str(await flight.run("a", source.ask))
        except StorageError as error:
            return str(error)

    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(ask()) for _ in range(3)]
        await asyncio.sleep(0)
        source.may_answer.set()
    assert [each.result() for each in calls] == ["it is away"] * 3
    source.error = None
    assert await flight.run("a", source.ask) == 2


async def test_an_error_without_a_waiting_caller_is_raised_once() -> None:
    flight, source = SingleFlight[int](), NumberedAnswers()
    source.error = StorageError("it is away")
    source.may_answer.set()
    with pytest.raises(StorageError):
        await flight.run("a", source.ask)


async def test_a_caller_that_goes_away_leaves_the_call_to_another() -> None:
    flight, source = SingleFlight[int](), NumberedAnswers()
    async with asyncio.TaskGroup() as tasks:
        first, *others = (tasks.create_task(flight.run("a", source.ask)) for _ in range(3))
        await asyncio.sleep(0)
        others[0].cancel()
        first.cancel()
        await asyncio.wait([first])
        source.may_answer.set()
    assert others[1].result() == 2
