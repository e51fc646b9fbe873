"""What a run has asked of its engines, source by source: pure.

A run keeps the renditions that it began with, and the numbers of its epochs are used once,
whichever engine makes them.
"""

import msgspec

from media.ladder import Ladder, Rendition, ladder_for
from media.track import VideoTrack
from transcode.protocol.messages import Prepared, Spliced, TakenOver

__all__ = ["Epoch", "Epochs"]


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """One source; `wall_us` is when its first packet came."""

    renditions: tuple[Rendition, ...]
    wall_us: int


class Epochs:
    """The sources of one run that an engine may still speak of.

    `active` are the labels that its owner wants. `renditions` are the picture's, from the first
    source with one on; `encoded` names those that an encoder makes now, largest first, of which
    `least` must stay.
    """

    def __init__(self, active: frozenset[str]) -> None:
        self.renditions: tuple[Rendition, ...] = ()
        self.encoded: tuple[str, ...] = ()
        self.least = 1
        self._active = active
        self._asked: dict[int, Epoch] = {}

    def begin(self, ladder: Ladder | None, *, wall_us: int, following: int) -> int:
        """Note a source; return its number, which is `following` or more."""
        number = max([following - 1, *self._asked]) + 1
        renditions = ladder.renditions if ladder is not None else ()
        self._asked[number] = Epoch(renditions=renditions, wall_us=wall_us)
        return number

    def ladder(self, video: VideoTrack | None) -> Ladder | None:
        """Return the renditions that the run has, or those for its first source.

        Viewers hold the playlists of a run: a source of another size is fitted into its renditions,
        and only one of the top rung's own size can lend it its packets.
        """
        if video is None:
            return None
        if not self.renditions:
            ladder = ladder_for(video.width, video.height, self._active)
            self.renditions = ladder.renditions
            return ladder
        top, *others = self.renditions
        same = (top.width, top.height) == (video.width, video.height)
        return Ladder((msgspec.structs.replace(top, source_size=same), *others))

    def is_newest(self, number: int) -> bool:
        """Say whether that source is the one that the engine was told of last."""
        return number == max(self._asked, default=-1)

    def prepared(self, report: Prepared | Spliced) -> Epoch:
        """Take an engine's word that a source begins; those before it are over."""
        # Reports come in the order of the sources, which may begin faster than they are made.
        self._asked = {key: self._asked[key] for key in self._asked if key >= report.epoch}
        epoch = self._asked[report.epoch]
        self.encoded = tuple(rung.name for rung in epoch.renditions if rung.name != report.reused)
        self.least = 0 if report.reused is not None else 1
        return epoch

    def taken_over(self, report: TakenOver) -> bool:
        """The encoder makes the top rung, too; False where that source is over."""
        if not self.is_newest(report.epoch):
            return False
        self.least = 1
        self.encoded = tuple(rung.name for rung in self._asked[report.epoch].renditions)
        return True
