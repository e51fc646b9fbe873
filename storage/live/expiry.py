"""Decides when files of a run are deleted: segments that left the playlists, unused init sections.

Pure. A segment is kept for some time after it left the playlists, for readers of an older playlist;
while the playlists on disk cannot be replaced, it has not left them. An init section is kept while
any segment on disk needs it, listed or not. The newest one of a rendition is always kept: a rung
that returns after a gap continues with it.
"""

from collections.abc import Iterable, Iterator, Mapping

from storage.live.run_state import RunState, Step

__all__ = ["Expiry"]


class Expiry:
    """The ages of one run's steps, by a monotonic clock in seconds.

    `oldest_shown` is the number of the oldest step that the playlists on disk may name.
    """

    def __init__(self, state: RunState, *, kept_seconds: float, now: float) -> None:
        """Begin with a stored run; its unlisted steps, whose age is unknown, age from `now`."""
        self._kept = kept_seconds
        self.oldest_shown = state.oldest_shown
        self._left_at = {
            step.sequence: now for step in state.unlisted if step.sequence < self.oldest_shown
        }
        self._first_inits: dict[str, int] = {}  # the oldest that may be on disk
        for name, number in _numbers((*state.unlisted, *state.listed), gaps=True):
            self._first_inits[name] = min(number, self._first_inits.get(name, number))

    def mark_published(self, state: RunState, now: float) -> None:
        """Record that the playlists on disk show the listed steps and no older one."""
        self.oldest_shown = state.listed[0].sequence
        for step in state.unlisted:
            self._left_at.setdefault(step.sequence, now)

    def is_due(self, step: Step, now: float) -> bool:
        """Return whether a step left the playlists long enough ago to be deleted."""
        return now - self._left_at.get(step.sequence, now) >= self._kept

    def remove(self, step: Step) -> None:
        """Record that a step was deleted."""
        del self._left_at[step.sequence]

    def unneeded_inits(
        self, steps: Iterable[Step], *, open_inits: Mapping[str, int], next_inits: Mapping[str, int]
    ) -> Iterator[tuple[str, int]]:
        """Yield the init sections that are no longer needed: rendition and number.

        `steps` are all steps that stay on disk, `open_inits` the oldest init sections of incomplete
        steps, `next_inits` the numbers after the newest. A yielded section counts as deleted when
        the next one is requested.
        """
        floors = {name: number - 1 for name, number in next_inits.items()}
        for name, number in (*open_inits.items(), *_numbers(steps, gaps=False)):
            floors[name] = min(number, floors.get(name, number))
        for name, floor in floors.items():
            for number in range(self._first_inits.get(name, 0), floor):
                yield name, number
                self._first_inits[name] = number + 1


def _numbers(steps: Iterable[Step], *, gaps: bool) -> Iterator[tuple[str, int]]:
    for step in steps:
        for name, segment in step.segments.items():
            if gaps or not segment.gap:
                yield name, segment.init
