"""What the playlists of a run list: the timelines of all its renditions.

Pure. All of them begin with the same step, so the oldest steps leave all playlists at once
(`drop_surplus`), and all announce the same target of parts. A part that is not listed any more
stays at the edge for some time, for viewers with an older playlist (`due_parts`). Times are ticks
of 90 000 a second; those that `until` names are ends of complete steps, on the output clock.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from delivery.run.step_builder import PublicationError
from media.hls.playlist import TARGET_SECONDS
from media.hls.timeline import Timeline, common_part_target
from media.ticks import VIDEO_SCALE

# How long parts stay at the edge after they left the playlists.
_UNLISTED_TICKS: Final = TARGET_SECONDS * VIDEO_SCALE


class RunTimelines(dict[str, Timeline]):
    """The timelines of one run, by rendition; empty before its first source.

    Set one only if it lists all parts that it did; else `replace` it. `part_target` is that of the
    newest source's parts, `listed_ticks` how much is to be listed.
    """

    def __init__(self, part_target: int, listed_ticks: int) -> None:
        super().__init__()
        self.part_target = part_target
        self._listed_ticks = listed_ticks
        # Parts that left the playlists, by rendition and URI, with `until` at that time.
        self._unlisted: deque[tuple[int, list[tuple[str, str]]]] = deque()

    @property
    def beginning(self) -> tuple[int, int]:
        """The first step in the playlists, and the discontinuities before it."""
        first = next(iter(self.values()))
        return first.sequence, first.discontinuities

    def prepare(self, names: Sequence[str], part_target: int, *, sequence: int) -> None:
        """Continue with a source of these renditions; new ones begin with the step `sequence`.

        Raises:
            PublicationError: the names differ from those of the run, whose playlists are in use.
        """
        if self and tuple(names) != tuple(self):
            if _list_media(self):
                raise PublicationError("a run keeps its renditions")
            self.clear()
        self.part_target = part_target
        target = common_part_target(self.values(), part_target)
        for name in names:
            timeline = self.get(name)
            self[name] = (
                Timeline(part_target=part_target, sequence=sequence)
                if timeline is None
                else timeline.with_part_target(target)
            )

    def end(self) -> bool:
        """End the run for its viewers; return False if no playlist lists anything."""
        ended = {name: timeline.end() for name, timeline in self.items()}
        if not _list_media(ended):
            return False
        self.update(ended)
        return True

    def replace(self, name: str, timeline: Timeline, *, until: int) -> None:
        """Replace a timeline; parts that it does not list any more are due after some time."""
        listed = {part.uri for part in timeline.listed_parts}
        parts = [(name, part.uri) for part in self[name].listed_parts if part.uri not in listed]
        if parts:
            self._unlisted.append((until, parts))
        self[name] = timeline

    def due_parts(self, until: int) -> Iterator[list[tuple[str, str]]]:
        """Yield the parts, by rendition and URI, that can leave the edge, and forget them."""
        while self._unlisted and self._unlisted[0][0] + _UNLISTED_TICKS <= until:
            yield self._unlisted.popleft()[1]

    def with_common_target(self, name: str, timeline: Timeline) -> Timeline:
        """Return a rendition's next timeline with the part target that all will announce."""
        timelines = (self | {name: timeline}).values()
        return timeline.with_part_target(common_part_target(timelines, self.part_target))

    def drop_surplus(self, *, until: int, lost: int = 0, first: int = 0) -> bool:
        """Let the oldest steps leave the playlists, in all renditions at once, if it is time.

        Those before the step `first` have left them. `lost` is as in `Timeline.surplus`. Return
        whether any left.
        """
        surpluses = (
            max(each.surplus(self._listed_ticks, lost=lost), min(each.count, first - each.sequence))
            for each in self.values()
        )
        drop = min(surpluses, default=0)
        if drop:
            for name, timeline in self.items():
                self.replace(name, timeline.trimmed(drop), until=until)
        return drop > 0


def _list_media(timelines: Mapping[str, Timeline]) -> bool:
    return any(timeline.newest is not None for timeline in timelines.values())
