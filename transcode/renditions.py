"""A file's renditions on their way to an object store, and the playlists that name them.

Segments are stored as they are made; playlists are written when all is there, so whoever can read
one can read all that it names. One task at a time may call it.
"""

from typing import Final

import msgspec

from media.ladder import AUDIO_RENDITION, Rendition
from media.m3u8 import render
from media.playlist import Listed, MediaPlaylist
from media.segment import InitSection, Part, Segment
from media.ticks import VIDEO_SCALE
from storage.objects.addresses import video
from storage.objects.base import Objects
from storage.rates import Measure, announce

__all__ = ["OutOfStep", "Renditions"]

_INDEX: Final = "index.m3u8"


class OutOfStep(Exception):
    """The renditions do not fit together, or there is none: ours to mend."""


class _Rendition(msgspec.Struct):
    """What there is of one rendition."""

    codecs: str = ""
    parts: list[Part] = []
    listed: list[Listed] = []
    sequences: list[int] = []
    measure: Measure = Measure()
    size: int = 0


class Renditions:
    """The renditions below the folder `media` of a video; `rungs` are those of its picture."""

    def __init__(
        self, objects: Objects, *, hash_: str, media: str, rungs: tuple[Rendition, ...]
    ) -> None:
        self._objects = objects
        self._media = media
        self._folder = f"{video(hash_)}/{media}"
        self._rungs = rungs
        names = (*(rung.name for rung in rungs), AUDIO_RENDITION)
        self._made = {name: _Rendition() for name in names}
        self.size = 0

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each rendition's media."""
        return {name: made.size for name, made in self._made.items()}

    @property
    def length(self) -> int:
        """The length of the longest rendition, in ticks of 90 000 a second."""
        return max(made.measure.ticks for made in self._made.values())

    async def take(self, report: InitSection | Part | Segment) -> None:
        """Store what was made.

        Raises:
            ObjectError: it could not be stored.
            OutOfStep: it does not fit to what came before it.
        """
        made = self._made.get(report.rendition)
        if made is None:
            raise OutOfStep(f"a rendition that was not asked for: {report.rendition}")
        match report:
            case InitSection():
                made.codecs = report.codecs
                await self._put(made, f"{report.rendition}/init-{report.number}.mp4", report.data)
            case Part():
                made.parts.append(report)
            case Segment():
                await self._segment(made, report)

    async def finish(self) -> None:
        """Write the playlists: of each rendition, then the one that names them.

        Raises:
            ObjectError: one could not be stored; what is there is of no use.
            OutOfStep: a rendition lacks what the others have.
        """
        first = next(iter(self._made.values())).sequences
        for name, made in self._made.items():
            if not first or made.sequences != first:
                raise OutOfStep(f"{name} has {len(made.sequences)} segments, not {len(first)}")
        for name, made in self._made.items():
            playlist = MediaPlaylist(
                target=_target(made.listed), segments=tuple(made.listed), ended=True, whole=True
            )
            await self._put(made, f"{name}/{_INDEX}", render(playlist).encode())
        variants = announce(
            self._media,
            self._rungs,
            {name: made.measure for name, made in self._made.items()},
            {name: made.codecs for name, made in self._made.items()},
            None,
        )
        data = render(variants).encode()
        self.size += len(data)
        await self._objects.put(f"{self._folder}/{_INDEX}", data)

    async def remove(self) -> None:
        """Remove all of it."""
        await self._objects.delete_tree(self._folder)

    async def _segment(self, made: _Rendition, segment: Segment) -> None:
        parts, made.parts = made.parts, []
        data = b"".join(part.data for part in parts)
        if segment.gap or len(data) != segment.size:
            raise OutOfStep(f"segment {segment.sequence} of {segment.rendition} is not its parts")
        await self._put(made, f"{segment.rendition}/{segment.sequence}.m4s", data)
        made.sequences.append(segment.sequence)
        made.listed.append(
            Listed(
                uri=f"{segment.sequence}.m4s",
                duration=segment.duration,
                map_uri=f"init-{segment.init}.mp4",
                discontinuity=segment.discontinuity,
            )
        )
        made.measure = made.measure.next(
            segment.size, segment.duration, frames=segment.frames, epoch=segment.epoch
        )

    async def _put(self, made: _Rendition, name: str, data: bytes) -> None:
        await self._objects.put(f"{self._folder}/{name}", data)
        made.size += len(data)
        self.size += len(data)


def _target(listed: list[Listed]) -> int:
    """Return the least target duration in which all segments fit, as rounded (4.4.3.1)."""
    longest = max(segment.duration for segment in listed)
    return max(1, (2 * longest + VIDEO_SCALE) // (2 * VIDEO_SCALE))
