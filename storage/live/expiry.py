"""What of a run is deleted, and when: segments that left the playlists, init sections of no use.

Pure. A segment stays for a time after it left, for who read an older playlist; where the playlists
on disk could not be replaced, it has not left them. An init section
stays while a segment on disk needs it, listed or not yet, and the newest of a rendition stays
always: a rung that returns after a gap goes on with it.
"""

from collections.abc import Iterable, Iterator, Mapping

from storage.live.run_state import RunNotes, Step

__all__ = ["Expiry"]


class Expiry:
    """The ages of one run's steps, by a clock in seconds that never goes back.

    `shown` is the number of the oldest step that the playlists on disk may name.
    """

    def __init__(self, notes: RunNotes, *, kept: float, now: float) -> None:
        """Take over a run. When its steps left is not known, so they are kept anew."""
        self._kept = kept
        self.shown = notes.shown
        self._left_at = {step.sequence: now for step in notes.left if step.sequence < self.shown}
        self._first_inits: dict[str, int] = {}  # the lowest that may be on disk
        for name, number in _numbers((*notes.left, *notes.listed), gaps=True):
            self._first_inits[name] = min(number, self._first_inits.get(name, number))

    def told(self, notes: RunNotes, now: float) -> None:
        """Note that the playlists on disk show what is listed now, and no older step."""
        self.shown = notes.listed[0].sequence
        for step in notes.left:
            self._left_at.setdefault(step.sequence, now)

    def is_due(self, step: Step, now: float) -> bool:
        """Say whether a step left long enough ago."""
        return now - self._left_at.get(step.sequence, now) >= self._kept

    def forget(self, step: Step) -> None:
        """Note that a step is deleted."""
        del self._left_at[step.sequence]

    def inits(
        self, steps: Iterable[Step], *, making: Mapping[str, int], next_inits: Mapping[str, int]
    ) -> Iterator[tuple[str, int]]:
        """Yield the init sections that nothing needs any more: rendition and number.

        `steps` are all that stay on disk, `making` are the lowest numbers that unfinished steps
        need, `next_inits` the numbers that follow the newest. What was yielded counts as deleted
        when the next one is asked for.
        """
        floors = {name: number - 1 for name, number in next_inits.items()}
        for name, number in (*making.items(), *_numbers(steps, gaps=False)):
            floors[name] = min(number, floors.get(name, number))
        for name, floor in floors.items():
            for number in range(self._first_inits.get(name, 0), floor):
                yield name, number
                self._first_inits[name] = number + 1


def _numbers(steps: Iterable[Step], *, gaps: bool) -> Iterator[tuple[str, int]]:
    for step in steps:
        for name, cut in step.cuts.items():
            if gaps or not cut.gap:
                yield name, cut.init
