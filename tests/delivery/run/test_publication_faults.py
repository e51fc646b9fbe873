"""Faults at any write: everything that viewers are told stays true.

A model of a run's life: steps with gaps, writes that fail, engines that die, restarts, new sources,
in any order. After every move all that viewers were ever told is looked at.
"""

import asyncio
import tempfile
from pathlib import Path

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from delivery.run.publication import Publication
from media.ladder import AUDIO_RENDITION
from tests.support.manual_clock import ManualClock
from tests.support.memory_folder import memory_folder
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    TOP,
    CheckedEdge,
    FailingObjects,
    PublicationFixture,
    ReportMaker,
    append_until_full,
    open_run,
    resume_run,
)
from tests.support.storage.playlist_viewers import PlaylistViewers

RUNGS = (TOP.name, LOW.name)
NAMES = (*RUNGS, AUDIO_RENDITION)
GAP = frozenset({TOP.name})


class EngineStep(msgspec.Struct, frozen=True):
    """A step of the engine, and the faults that happen during it.

    `full` are ends of addresses that cannot be written; `cut` is how many reports the engine gives
    before it dies (None: it lives); `restart` says that the process dies after it.
    """

    gaps: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()
    cut: int | None = None
    restart: bool = False
    source: bool = False
    seconds: float = 2.0


ENDS = (
    *(f"{name}/index.m3u8" for name in NAMES), f"{HASH}/index.m3u8", "/state.json",
    *(f"{name}/#" for name in NAMES), *(f"{name}/init" for name in NAMES), "",
)  # fmt: skip
moves = st.builds(
    EngineStep,
    gaps=st.just(frozenset[str]()) | st.frozensets(st.sampled_from(RUNGS), max_size=1),
    full=st.just(frozenset[str]()) | st.frozensets(st.sampled_from(ENDS), max_size=4),
    cut=st.none() | st.none() | st.integers(0, 8),
    restart=st.sampled_from([False, False, False, True]),
    source=st.sampled_from([False, False, False, True]),
    seconds=st.sampled_from([0.0, 2.0, 2.0, 9.0]),
)


class FaultyObjects(FailingObjects):
    """A disk on which kinds of addresses have no room: `name/#` are a rendition's segments."""

    async def put(self, address: str, data: bytes, *, vital: bool = False) -> None:
        folder, _, last = address.rpartition("/")
        kinds = {address, f"{folder.rpartition('/')[2]}/{'init' if 'init' in last else last}"}
        if last.endswith(".m4s"):
            kinds.add(f"{folder.rpartition('/')[2]}/#")
        before, self.full = (
            self.full,
            {address for end in self.full for kind in kinds if kind.endswith(end)},
        )
        try:
            await super().put(address, data, vital=vital)
        finally:
            self.full = before


class StreamLifetime:
    """A stream's life on one disk."""

    def __init__(self, folder: Path) -> None:
        self.stage = PublicationFixture(folder)
        self.stage.objects = FaultyObjects(self.stage.disk)
        self.clock = ManualClock()
        self.births = 0
        self.viewers = PlaylistViewers(self.stage, self.clock)

    async def play(self, script: list[EngineStep]) -> None:
        await self.begin_anew()
        for move in script:
            await self.move(move)
            await self.viewers.check_playlists(self.publication)
        self.stage.objects.full = set()
        for _ in range(2):  # there is room again
            await self.move(EngineStep())
            await self.viewers.check_playlists(self.publication)
        await self.viewers.check_recovered(self.publication)
        await self.publication.finish()
        await self.viewers.check_ended(self.publication)

    # -- moves ------------------------------------------------------------------------------------

    async def begin_anew(self) -> None:
        """Start a process: with the existing run, or with a new one."""
        self.births += 1
        self.viewers.lose_memory()
        self.stage.edge = CheckedEdge(self.stage.disk)
        stage, now_us = self.stage, NOON_US + self.births
        publication = await resume_run(stage.objects, stage.edge, self.clock, now_us=now_us)
        if publication is None:
            assert not self.viewers.saw_stored, "viewers were shown a run that nobody goes on with"
            self.viewers.seen.clear()
            now_us += 1000 * self.births
            publication = await open_run(stage.objects, stage.edge, self.clock, now_us=now_us)
        self.publication: Publication = publication
        publication.add_observer(lambda _: self.viewers)
        await self.begin_engine()

    async def begin_engine(self) -> None:
        self.births += 1
        going = self.publication
        self.maker = ReportMaker.continuing(going, salt=str(self.births))
        self.maker.renditions = (TOP, LOW)
        self.maker.names = NAMES
        self.maker.inits = {name: going.next_inits.get(name, 0) for name in NAMES}
        await self.begin_source()

    async def begin_source(self) -> None:
        await self.publication.prepare(self.maker.epoch, (TOP, LOW), NOON_US)
        await append_until_full(self.publication, self.maker.begin())
        self.fresh = True

    async def move(self, move: EngineStep) -> None:
        self.stage.objects.full = set(move.full)
        if move.source:
            self.maker.epoch += 1
            await self.begin_source()
        reports = self.maker.step(gaps=move.gaps, discontinuity=self.fresh)
        self.fresh = False
        await append_until_full(self.publication, reports[: move.cut])
        self.clock.now += move.seconds
        if move.restart:
            await self.viewers.check_playlists(self.publication)
            await self.begin_anew()
        elif move.cut is not None:
            await self.publication.close_open()
            await self.begin_engine()


@example(
    [
        *[EngineStep()] * 4,
        EngineStep(full=frozenset({""})),
        EngineStep(gaps=GAP, cut=1, restart=True),
    ]
)
@given(st.lists(moves, max_size=30))
def test_playlists_list_what_exists_whatever_fails(script: list[EngineStep]) -> None:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        life = StreamLifetime(Path(folder))
        with life.stage.disk:
            asyncio.run(life.play(script))
