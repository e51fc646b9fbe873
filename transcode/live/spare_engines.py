"""Engines that have started and wait for work: a run that begins with one saves its start.

That takes 0.5 s of computing, and several begin at once where a host takes over the streams of
another one. It is known seconds before that this may happen.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from transcode.protocol.engine_process import EngineLost, EngineProcess, spawn_engine

log = logging.getLogger(__name__)

# An owner that is gone is replaced within 5 s; the search for one ends after 10 s.
_KEPT_SECONDS: Final = 15.0
# An owner that is merely slow may be silent to all hosts that relay to it: engines for all of its
# streams would slow this host down for nothing. This many are enough to save a machine of few cores
# the wait.
_MOST_SPARES: Final = 4


class _Spare:
    """An engine that waits for a run; `SpareEngines._keep` starts and ends it."""

    def __init__(self) -> None:
        self.child: asyncio.Future[EngineProcess] = asyncio.get_running_loop().create_future()
        self.taken = asyncio.Event()
        self.done = asyncio.Event()  # the run needs it no more
        self.over = asyncio.Event()  # it has ended


class SpareEngines:
    """The spare engines of live runs, at most one a stream and four in all; `run` keeps them."""

    def __init__(self) -> None:
        self._spares: dict[str, _Spare] = {}
        self._wanted: asyncio.Queue[str] = asyncio.Queue()

    def __len__(self) -> int:
        return len(self._spares)

    def expect(self, stream: str) -> None:
        """Start an engine for the stream's next run, in case that begins soon."""
        self._wanted.put_nowait(stream)

    async def run(self) -> None:
        """Start engines that are expected, and end those that stay unused, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                stream = await self._wanted.get()
                if stream not in self._spares and len(self._spares) < _MOST_SPARES:
                    self._spares[stream] = spare = _Spare()
                    tasks.create_task(self._keep(stream, spare))

    @asynccontextmanager
    async def engine(self, stream: str) -> AsyncGenerator[EngineProcess]:
        """Run a live engine for the length of the block, as `spawn_engine` does."""
        spare = self._spares.pop(stream, None)
        if spare is None:
            async with spawn_engine("live", stream) as child:
                yield child
            return
        spare.taken.set()
        try:
            # Shielded: `_keep` sets the future even if this run is cancelled.
            child = await asyncio.shield(spare.child)
            try:
                yield child
            except BaseException:
                child.kill()
                raise
        finally:
            spare.done.set()
            await spare.over.wait()

    async def _keep(self, stream: str, spare: _Spare) -> None:
        try:
            async with spawn_engine("live", stream) as child:
                spare.child.set_result(child)
                try:
                    async with asyncio.timeout(_KEPT_SECONDS):
                        await spare.taken.wait()
                except TimeoutError:
                    if not spare.taken.is_set():  # at the last moment
                        self._spares.pop(stream, None)
                        return
                await spare.done.wait()
        except OSError as error:  # no more processes, for example
            log.warning("no spare engine", extra={"stream": stream, "cause": str(error)})
        finally:
            if self._spares.get(stream) is spare:
                del self._spares[stream]
            if spare.taken.is_set() and not spare.child.done():
                spare.child.set_exception(EngineLost(None))
            spare.over.set()
