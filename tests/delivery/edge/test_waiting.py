"""Requests that wait for a part: which are called, when, and what each costs."""

import asyncio

from delivery.edge.waiting import WaitingRequests
from media.hls.playlist import PartialSegment
from media.hls.timeline import Timeline
from tests.support.waiting import until

ADDRESS = "live/a/run/720p/index.m3u8"


def timeline(segments: int, parts: int) -> Timeline:
    """Return a timeline of closed segments of two parts each, and an open one."""
    built = Timeline(part_target=45_000)
    for number in range(segments + 1):
        built = built.open("init-0.mp4")
        for index in range(2 if number < segments else parts):
            built = built.with_part(
                PartialSegment(uri=f"{number}.{index}.m4s", duration=45_000, independent=not index)
            )
        if number < segments:
            built = built.close(f"{number}.m4s", 90_000)
    return built


async def test_requests_are_called_when_their_part_is_listed_and_not_before() -> None:
    waiting = WaitingRequests()
    called: list[str] = []
    waiting.add(ADDRESS, 1, 1, lambda: called.append("part"))
    waiting.add(ADDRESS, 1, None, lambda: called.append("segment"))
    waiting.add("live/a/run/audio/index.m3u8", 1, 1, lambda: called.append("another"))
    waiting.wake(ADDRESS, timeline(1, 1))
    assert (called, len(waiting)) == ([], 3)
    waiting.wake(ADDRESS, timeline(1, 2))
    assert (called, len(waiting)) == (["part"], 2)
    waiting.wake(ADDRESS, timeline(2, 0))
    assert (called, len(waiting)) == (["part", "segment"], 1)


async def test_the_end_of_a_run_answers_all() -> None:
    waiting = WaitingRequests()
    called: list[int] = []
    for number in range(3):
        waiting.add(ADDRESS, 5 + number, None, lambda number=number: called.append(number))
    waiting.wake(ADDRESS, timeline(2, 0).end())
    assert called == [0, 1, 2]
    assert len(waiting) == 0


async def test_a_request_that_is_cancelled_is_not_called() -> None:
    waiting = WaitingRequests()
    called: list[int] = []
    cancel = waiting.add(ADDRESS, 1, 0, lambda: called.append(1))
    waiting.add(ADDRESS, 1, 0, lambda: called.append(2))
    cancel()
    cancel()
    waiting.wake(ADDRESS, timeline(1, 1))
    assert called == [2]


async def test_of_many_requests_some_are_called_at_a_time() -> None:
    """Between two callbacks the event loop sends their output and does other work."""
    waiting = WaitingRequests()
    called: list[int] = []
    cancels = [waiting.add(ADDRESS, 1, 0, lambda n=n: called.append(n)) for n in range(1000)]
    waiting.wake(ADDRESS, timeline(1, 1))
    some = len(called)
    assert (0 < some < 1000, len(waiting)) == (True, 0)
    cancels[-1]()
    await until(lambda: len(called) == 999)
    assert called == list(range(999))


async def test_requests_for_a_run_that_is_gone_are_called() -> None:
    waiting = WaitingRequests()
    called: list[int] = []
    waiting.add(ADDRESS, 1, 0, lambda: called.append(1))
    waiting.add("live/ab/run/720p/index.m3u8", 1, 0, lambda: called.append(2))
    waiting.drop("live/a/")
    assert called == [1]


async def test_no_request_waits_for_ever() -> None:
    waiting = WaitingRequests(wait_seconds=0.01)
    called: list[int] = []
    waiting.add(ADDRESS, 1, 0, lambda: called.append(1))
    await until(lambda: called == [1])
    assert len(waiting) == 0


async def test_thousands_wait_without_a_task_or_a_timer_each() -> None:
    waiting = WaitingRequests()
    called: list[int] = []
    tasks = len(asyncio.all_tasks())
    for number in range(5_000):
        waiting.add(ADDRESS, 1, 0, lambda number=number: called.append(number))
    assert len(asyncio.all_tasks()) == tasks
    waiting.wake(ADDRESS, timeline(1, 1))
    await until(lambda: len(called) == 5_000)
    assert called == list(range(5_000))
