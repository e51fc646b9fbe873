"""The epochs that a run has requested from its engines, one for each source.

Pure. A run keeps the renditions that it began with; each epoch number is used once in a run,
whichever engine makes it.
"""

import msgspec

from delivery.run.step_builder import PublicationError
from media.ladder import Ladder, Rendition, ladder_for
from media.source_mark import FindMarks, no_marks
from media.track import VideoTrack
from transcode.protocol.messages import Prepared, Spliced, TakenOver


class RequestedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """The epoch of one source; `wall_us` is when its first packet came, in us since the epoch.

    `marks` are as in `PacketSink.begin`.
    """

    renditions: tuple[Rendition, ...]
    wall_us: int
    marks: FindMarks = no_marks


class Epochs:
    """The epochs of one run that an engine may still report about.

    `active` are the labels that the owner has enabled. `renditions` are the video rungs, set by the
    first source with video; `encoded` names those that an encoder makes now, largest first, of
    which at least `min_rungs` must stay.
    """

    def __init__(self, active: frozenset[str]) -> None:
        self.renditions: tuple[Rendition, ...] = ()
        self.encoded: tuple[str, ...] = ()
        self.min_rungs = 1
        self._active = active
        self._requested: dict[int, RequestedEpoch] = {}

    def add(
        self,
        ladder: Ladder | None,
        *,
        wall_us: int,
        following: int,
        marks: FindMarks = no_marks,
    ) -> int:
        """Add the epoch of a new source and return its number, `following` or more."""
        number = max([following - 1, *self._requested]) + 1
        renditions = ladder.renditions if ladder is not None else ()
        self._requested[number] = RequestedEpoch(
            renditions=renditions, wall_us=wall_us, marks=marks
        )
        return number

    def marks(self, number: int) -> FindMarks:
        """Return what finds the marks of an epoch's source."""
        epoch = self._requested.get(number)
        return no_marks if epoch is None else epoch.marks

    def ladder(self, video: VideoTrack | None) -> Ladder | None:
        """Return the run's ladder, which its first source with video sets.

        Players hold the playlists of the run, so a source of another size is fitted into its
        renditions. The source's own packets can be used only if it has the size of the top rung.
        """
        if video is None:
            return None
        if not self.renditions:
            ladder = ladder_for(video.width, video.height, self._active)
            self.renditions = ladder.renditions
            return ladder
        top, *lower = self.renditions
        same = (top.width, top.height) == (video.width, video.height)
        return Ladder((msgspec.structs.replace(top, source_size=same), *lower))

    @property
    def newest(self) -> int:
        """The epoch that was requested last; -1 if there is none."""
        return max(self._requested, default=-1)

    def is_newest(self, number: int) -> bool:
        """Return whether `number` is the epoch that was requested last."""
        return number == self.newest

    def start(self, report: Prepared | Spliced) -> RequestedEpoch:
        """Return the epoch that an engine has started, and forget those before it.

        Raises:
            PublicationError: no such epoch was requested.
        """
        if report.epoch not in self._requested:
            raise PublicationError(f"epoch {report.epoch} was not requested")
        # Reports come in the order of the epochs, which may be requested faster than they are made.
        self._requested = {
            key: self._requested[key] for key in self._requested if key >= report.epoch
        }
        epoch = self._requested[report.epoch]
        self.encoded = tuple(rung.name for rung in epoch.renditions if rung.name != report.reused)
        self.min_rungs = 0 if report.reused is not None else 1
        return epoch

    def encode_top_rung(self, report: TakenOver) -> bool:
        """Note that the top rung is encoded, too; return False if that epoch is over."""
        if not self.is_newest(report.epoch):
            return False
        self.min_rungs = 1
        self.encoded = tuple(rung.name for rung in self._requested[report.epoch].renditions)
        return True
