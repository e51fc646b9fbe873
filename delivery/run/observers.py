"""Observers of a run: whatever follows it beside its viewers, such as its recording.

The process that opens or resumes a run has a list of factories, and asks each for an observer of
it. What is stored of the run is told to each from the newest remembered steps on, so that it can go
on where another process was killed; sources and parts are told as they come.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Generic, TypeVar

import msgspec

from delivery.run.run_state import RunState, Step
from media.hls.playlist import PartialSegment
from media.hls.segment import EpochStart
from media.run_policy import ResolvedPolicy

log = logging.getLogger(__name__)

# Steps that a new observer gets first: two minutes, more than a recording ever lags behind.
_REMEMBERED_STEPS: Final = 64
# The longest that the end of a run waits for its observers.
_RELEASE_SECONDS: Final = 1.0

T = TypeVar("T")


class ObservedRun(msgspec.Struct, frozen=True):
    """A run that is opened or resumed: its stream's hash, its name, and what is set for it.

    `policy` is None if the run is resumed only to be ended.
    """

    stream: str
    run: str
    policy: ResolvedPolicy | None = None


class RunObserver:
    """Follows a run; each method does nothing unless it is overridden.

    No call may wait, except `release`: viewers of the run come first. What takes longer is the work
    of a `QueueingObserver`. One that fails is logged, and gets no more calls.
    """

    def on_source(self, start: EpochStart) -> None:
        """Handle the first moment of a source.

        With an epoch above 0 it is a splice: the source follows what was shown before.
        """

    def on_part(self, rendition: str, part: PartialSegment, data: bytes) -> None:
        """Handle a part that viewers can get now."""

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Handle a stored step; `state` lists it, `codecs` holds the known codecs by rendition.

        A step without media is left out, and the next one is a discontinuity then.
        """

    def on_ended(self) -> None:
        """Handle the end of the run for its viewers."""

    async def release(self) -> None:
        """Finish what is under way: this process ends the run, or leaves it to another.

        The process waits for that, but only for a second.
        """


# Called when a run opens or is resumed; None: that run is not observed.
ObserverFactory = Callable[[ObservedRun], RunObserver | None]


class QueueingObserver(RunObserver, Generic[T]):
    """An observer whose work is done by a task of its own, which takes what it has queued.

    If more than `limit` wait, the oldest are dropped, which is logged once.
    """

    def __init__(self, run: ObservedRun, limit: int) -> None:
        self.stream = run.stream
        self.run = run.run
        self.has_ended = False
        self._dropped = False
        self._waiting: deque[T] = deque(maxlen=limit)
        self._more = asyncio.Event()

    def put(self, item: T) -> None:
        """Queue what the task is to handle."""
        if len(self._waiting) == self._waiting.maxlen and not self._dropped:
            self._dropped = True
            facts = {"stream": self.stream, "run": self.run, "observer": type(self).__name__}
            log.warning("observer of a run too slow", extra=facts)
        self._waiting.append(item)
        self._more.set()

    def on_ended(self) -> None:
        """Let the task end once nothing waits."""
        self.has_ended = True
        self._more.set()

    async def next(self) -> T | None:
        """Wait for the next item and return it, or None once the run has ended."""
        while not self._waiting and not self.has_ended:
            self._more.clear()
            await self._more.wait()
        return self._waiting.popleft() if self._waiting else None


class _Follower:
    """An observer, and what it was told last."""

    def __init__(self, observer: RunObserver) -> None:
        self.observer = observer
        self._skipped = False  # the step before was not reported

    def report(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Report a step, unless it has no media."""
        if not step.playable:
            self._skipped = True
            return
        if self._skipped:
            step = msgspec.structs.replace(step, discontinuity=True)
        self._skipped = False
        self.observer.on_step_listed(step, state, codecs)


class RunObservers:
    """The observers of one run; `stored` are its newest stored steps."""

    def __init__(self, stream: str, run: str, stored: Iterable[Step]) -> None:
        self._stream, self._run = stream, run
        self._newest = deque(stored, maxlen=_REMEMBERED_STEPS)
        self._followers: list[_Follower] = []

    def add(self, make: ObserverFactory, policy: ResolvedPolicy | None, state: RunState) -> None:
        """Tell one more observer of the run, first of the newest stored steps."""
        with self._guarded():
            observer = make(ObservedRun(self._stream, self._run, policy))
            if observer is None:
                return
            follower = _Follower(observer)
            for step in self._newest:
                follower.report(step, state, {})
            self._followers.append(follower)

    def add_source(self, start: EpochStart) -> None:
        """Report a source."""
        self._tell_all(lambda each: each.observer.on_source(start))

    def add_part(self, rendition: str, part: PartialSegment, data: bytes) -> None:
        """Report a part."""
        if self._followers:  # several times in a second for each rendition
            self._tell_all(lambda each: each.observer.on_part(rendition, part, data))

    def remember(self, step: Step) -> None:
        """Remember a step that is listed, for later observers."""
        self._newest.append(step)

    def add_step(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Report a stored step."""
        self._tell_all(lambda each: each.report(step, state, codecs))

    def end(self) -> None:
        """Report the end of the run."""
        self._tell_all(lambda each: each.observer.on_ended())

    async def release(self) -> None:
        """Wait up to a second until each observer has finished what is under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS), asyncio.TaskGroup() as tasks:
                for each in self._followers:
                    tasks.create_task(self._release(each.observer))

    async def _release(self, observer: RunObserver) -> None:
        with self._guarded():
            await observer.release()

    def _tell_all(self, call: Callable[[_Follower], None]) -> None:
        for follower in tuple(self._followers):
            with self._guarded(follower):
                call(follower)

    @contextmanager
    def _guarded(self, follower: _Follower | None = None) -> Generator[None]:
        """Log what fails in the block; it costs the run and the other observers nothing."""
        try:
            yield
        except Exception:
            facts = {"stream": self._stream, "run": self._run}
            log.exception("observer of a run failed", extra=facts)
            if follower is not None:
                self._followers.remove(follower)
