"""What transactions of the service cost in each of the ways, round by round.

The CPU is that of the process with all its threads. How late a timer rings is a time of the wall
clock, which a busy machine lengthens: only values of one run are to be compared.
"""

import asyncio
import gc
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.api.rows import fill
from bench.catalog.ways import WAYS, Way, open_ways
from storage.catalog.records.common import ProjectRecord, StreamRecord
from storage.catalog.records.videos import VideoQuery
from storage.catalog.videos.queries import PAGE_SIZE

_READERS: Final = 8
_WRITERS: Final = 1
_SEARCHES: Final = 4  # in each mixed load that has any
_TICK_SECONDS: Final = 0.001
_Act = Callable[[Way], Awaitable[None]]


class Figures(msgspec.Struct):
    """What was measured, a value for each round: by operation and way, or by way."""

    cpu_us: dict[str, dict[str, list[float]]] = {}
    """Microseconds of a transaction."""
    hold_up_ms: dict[str, list[float]] = {}
    """The longest hold-up of the event loop while some search and others read and write."""
    turn_cpu_ms: dict[str, list[float]] = {}
    """The most CPU that the loop's thread took meanwhile between two rings of a timer of 1 ms."""
    wait_ms: dict[str, list[float]] = {}
    """The longest that a reader waited for an answer meanwhile."""


class Longest:
    """The longest of some times, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        """Note a time."""
        self.seconds = max(self.seconds, seconds)


class HoldUps(Longest):
    """How late a timer of the event loop rang at most."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = Longest()
        """The CPU of the loop's thread between two rings."""


class Load:
    """Transactions of the service on a catalog that `bench.api.rows` has filled."""

    def __init__(
        self, token: str, project: ProjectRecord, stream: StreamRecord, pages: int
    ) -> None:
        self._token = token
        self._project = project
        self._stream = stream
        self._pages = itertools.cycle(range(1, pages + 1))
        self._turns = itertools.cycle((True, False))

    async def find_token(self, way: Way) -> None:
        assert await way.read(way.catalog.tokens.authenticate(self._token))

    async def find_stream(self, way: Way) -> None:
        assert await way.read(way.catalog.live_state.find_ingest(self._stream.key))

    async def find_page(self, way: Way) -> None:
        page = way.catalog.videos.find_page(self._project, VideoQuery(), next(self._pages))
        assert (await way.read(page)).items

    async def search(self, way: Way) -> None:
        """Look through all titles for one that is not there."""
        query = VideoQuery(search="no such title")
        assert not (await way.read(way.catalog.videos.find_page(self._project, query, 1))).items

    async def write_state(self, way: Way) -> None:
        """Turn the stream on air or off, which also writes an event and a notice."""
        is_live = next(self._turns)
        await way.write(
            way.catalog.live_state.set(
                self._stream.id,
                live=is_live,
                processing=is_live,
                on_air=0 if is_live else None,
                sending=[0] if is_live else [],
                no_audio=False,
                now_us=time.time_ns() // 1000,
            )
        )

    async def mixed(self, way: Way, times: int, *, searches: int = 0) -> Longest:
        """Let a writer and eight readers do so many transactions each, while one searches.

        Returns the longest that a reader waited.
        """
        waits = Longest()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_repeat(self.search, way, searches, Longest()))
            tasks.create_task(_repeat(self.write_state, way, times, Longest()))
            for number in range(_READERS):
                act = self.find_page if number % 2 else self.find_stream
                tasks.create_task(_repeat(act, way, times, waits))
        return waits


async def _repeat(act: _Act, way: Way, times: int, waits: Longest) -> None:
    for _ in range(times):
        began = time.monotonic()
        await act(way)
        waits.note(time.monotonic() - began)
        await asyncio.sleep(0)  # as between two requests, the event loop turns


@asynccontextmanager
async def hold_ups() -> AsyncGenerator[HoldUps]:
    """Note how late a timer of the event loop rings, for the length of the block."""
    longest = HoldUps()

    async def tick() -> None:
        while True:
            began, busy = time.monotonic(), time.thread_time()
            await asyncio.sleep(_TICK_SECONDS)
            longest.note(time.monotonic() - began - _TICK_SECONDS)
            longest.cpu.note(time.thread_time() - busy)

    async with asyncio.TaskGroup() as tasks:
        ticking = tasks.create_task(tick())
        try:
            yield longest
            await asyncio.sleep(_TICK_SECONDS)  # the timer rings after what came last, too
        finally:
            ticking.cancel()


async def _cpu_us(work: Awaitable[object]) -> float:
    began = time.process_time()
    await work
    return (time.process_time() - began) * 1e6


async def _measure_round(load: Load, ways: dict[str, Way], times: int, figures: Figures) -> None:
    gc.collect()  # what was made before is not this round's
    alone = {
        "find a token (1 statement)": (load.find_token, times),
        "find a stream by its key (3)": (load.find_stream, times),
        "list 30 videos (2)": (load.find_page, times),
        "search all titles (1)": (load.search, max(1, times // 10)),
        "set a live state (8)": (load.write_state, times),
    }

    for name, (act, count) in alone.items():
        for way in ways:
            spent = await _cpu_us(_repeat(act, ways[way], count, Longest()))
            figures.cpu_us.setdefault(name, defaultdict(list))[way].append(spent / count)
    transactions = max(1, times // (_READERS + _WRITERS))
    for way in ways:
        spent = await _cpu_us(load.mixed(ways[way], transactions))
        of_one = spent / (transactions * (_READERS + _WRITERS))
        figures.cpu_us.setdefault("1 writer beside 8 readers", defaultdict(list))[way].append(
            of_one
        )
    for way in ways:
        async with hold_ups() as longest:
            waits = await load.mixed(ways[way], transactions, searches=_SEARCHES)
        figures.hold_up_ms.setdefault(way, []).append(longest.seconds * 1000)
        figures.turn_cpu_ms.setdefault(way, []).append(longest.cpu.seconds * 1000)
        figures.wait_ms.setdefault(way, []).append(waits.seconds * 1000)


async def measure(folder: Path, *, videos: int, rounds: int, times: int) -> Figures:
    """Measure every operation in every way: so many transactions of each in each round."""
    place = folder / "catalog.sqlite"
    _, token = await fill(place, videos)
    figures = Figures()
    async with open_ways(place) as ways:
        first = await ways["headend"].catalog.installation.find()
        assert first is not None
        assert first.stream is not None
        load = Load(token, first.project, first.stream, min(20, videos // PAGE_SIZE))
        # Connections are opened and statements compiled.
        await _measure_round(load, ways, 2, Figures())
        for number in range(rounds):
            # Each round begins with another way, so that none always follows the same one.
            order = [*WAYS[number % len(WAYS) :], *WAYS[: number % len(WAYS)]]
            await _measure_round(load, {name: ways[name] for name in order}, times, figures)
    return figures
