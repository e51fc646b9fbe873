"""Decides when files of a run are deleted: segments that left the playlists, unused init sections.

Pure. A segment is kept for some time after it left the playlists, for readers of an older playlist;
while the playlists on disk cannot be replaced, it has not left them. An init section is kept while
any segment on disk needs it, listed or not. The newest one of a rendition is always kept: a rung
that returns after a gap continues with it.

Segments are deleted in the order of their numbers, so one number says which are gone. Init sections
are numbered in the order in which segments use them.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from delivery.run.run_state import RunState, Step


class _InitUse(msgspec.Struct):
    """Init sections from the number `first` on are needed by the steps up to `last`."""

    first: int
    last: int


class Expiry:
    """The ages of one run's steps, by a monotonic clock in seconds.

    `oldest` is the number of the oldest step that may have media on disk, `oldest_shown` that of
    the oldest step that the playlists on disk may name, `oldest_inits` the numbers of the oldest
    init sections that may be on disk, by rendition.
    """

    def __init__(
        self, state: RunState, listed: Sequence[Step], *, kept_seconds: float, now: float
    ) -> None:
        """Begin with a stored run and the steps in its playlists.

        Its other steps, whose age is unknown, age from `now`.
        """
        self._kept = kept_seconds
        self.oldest = state.oldest
        self.oldest_shown = state.oldest_shown
        self.oldest_inits = dict(state.oldest_inits)
        # When steps left the playlists, and the number of the oldest that did not.
        self._departures: deque[tuple[float, int]] = deque()
        if self.oldest < self.oldest_shown:
            self._departures.append((now, self.oldest_shown))
        self._uses: dict[str, deque[_InitUse]] = {}
        # Only the log says what the steps before the listed ones need: until they are gone, nothing
        # is deleted.
        if self.oldest < state.first:
            for name, number in self.oldest_inits.items():
                self._uses[name] = deque([_InitUse(number, state.first - 1)])
        for step in listed:
            self.add(step)

    def add(self, step: Step) -> None:
        """Record that a step was listed; its number is greater than all earlier ones."""
        for name, segment in step.segments.items():
            self.oldest_inits.setdefault(name, segment.init)
            if segment.gap:
                continue
            uses = self._uses.setdefault(name, deque())
            if uses and uses[-1].first == segment.init:
                uses[-1].last = step.sequence
            else:
                uses.append(_InitUse(segment.init, step.sequence))

    def mark_published(self, first: int, now: float) -> None:
        """Record that the playlists on disk show the step `first` and no older one."""
        if first > self.oldest_shown:
            self.oldest_shown = first
            self._departures.append((now, first))

    def due(self, now: float) -> range:
        """Return the numbers of the steps that left the playlists long enough ago."""
        end = self.oldest
        for left_at, number in self._departures:
            if now - left_at < self._kept:
                break
            end = number
        return range(self.oldest, end)

    def remove(self, sequence: int) -> None:
        """Record that the segments of the oldest step were deleted."""
        self.oldest = sequence + 1
        while self._departures and self._departures[0][1] <= self.oldest:
            self._departures.popleft()

    def unneeded_inits(
        self, *, open_inits: Mapping[str, int], next_inits: Mapping[str, int]
    ) -> Iterator[tuple[str, int]]:
        """Yield the init sections that are no longer needed: rendition and number.

        `open_inits` are the oldest init sections of incomplete steps, `next_inits` the numbers
        after the newest. A yielded section counts as deleted when the next one is requested.
        """
        floors = {name: number - 1 for name, number in next_inits.items()}
        for name, number in open_inits.items():
            floors[name] = min(number, floors.get(name, number))
        for name, uses in self._uses.items():
            while uses and uses[0].last < self.oldest:
                uses.popleft()
            if uses:
                floors[name] = min(uses[0].first, floors.get(name, uses[0].first))
        for name, floor in floors.items():
            for number in range(self.oldest_inits.get(name, 0), floor):
                yield name, number
                self.oldest_inits[name] = number + 1
