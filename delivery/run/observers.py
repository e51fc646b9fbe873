"""Observers of a run: whatever follows it beside its viewers, such as its recording.

Any number may follow a run, from its beginning or from later on. What is stored of it is told to
each from the newest remembered steps on; parts and sources are told as they come.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from delivery.run.run_state import RunState, Step
from media.hls.playlist import PartialSegment
from media.hls.segment import EpochStart

log = logging.getLogger(__name__)

# Steps that a new observer gets first: two minutes, more than a recording ever lags behind.
_REMEMBERED_STEPS: Final = 64


class RunObserver:
    """Follows a run; each method does nothing unless it is overridden.

    No call may wait: viewers of the run come first, so an observer queues what it has to do, in a
    queue with a bound. One that fails is logged, and gets no more calls.
    """

    def on_source(self, start: EpochStart) -> None:
        """Handle the first moment of a source, which follows what was shown before."""

    def on_part(self, rendition: str, part: PartialSegment, data: bytes) -> None:
        """Handle a part that viewers can get now."""

    def on_step_listed(self, step: Step, state: RunState, codecs: Mapping[str, str]) -> None:
        """Handle a stored step; `state` lists it, `codecs` holds the known codecs by rendition.

        A step without media is left out, and the next one is a discontinuity then.
        """

    def on_ended(self) -> None:
        """Handle the end of the run for its viewers."""


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
        self._facts = {"stream": stream, "run": run}
        self._newest = deque(stored, maxlen=_REMEMBERED_STEPS)
        self._followers: list[_Follower] = []

    def add(self, observer: RunObserver, state: RunState) -> None:
        """Tell one more observer of the run, first of the newest stored steps."""

        def replay(follower: _Follower) -> None:
            for step in self._newest:
                follower.report(step, state, {})

        follower = _Follower(observer)
        self._followers.append(follower)
        self._tell(follower, replay)

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

    def _tell_all(self, call: Callable[[_Follower], None]) -> None:
        for follower in tuple(self._followers):
            self._tell(follower, call)

    def _tell(self, follower: _Follower, call: Callable[[_Follower], None]) -> None:
        try:
            call(follower)
        except Exception:  # a failing observer must cost the run and the others nothing
            log.exception("observer of a run failed", extra=self._facts)
            self._followers.remove(follower)
