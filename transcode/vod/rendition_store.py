"""Stores the renditions of a file as an engine makes them, and records what is stored.

Segments are stored as they come; `transcode.vod.playlists` writes the playlists when all segments
are stored, so everything that a playlist names can be read. One task at a time may use a store.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from storage.objects.addresses import video
from storage.objects.base import Objects

# Of one rendition's segment: four seconds at 500 Mbit/s, ten times the rate of any rung. An engine
# that a hostile file has taken over could otherwise fill this process's memory.
_MOST_UNFINISHED_BYTES: Final = 256 << 20
# For owners.
NOT_STORED: Final = "The file could not be read, or what was made of it not stored."
OUT_OF_STEP: Final = "Transcoding made renditions that do not fit together."


class OutOfStep(Exception):
    """The renditions do not fit together, or there is none: a bug of the engine."""


class MadeSegment(msgspec.Struct, frozen=True, array_like=True):
    """A stored segment: `size` in bytes, `duration` in ticks of 90 000 a second.

    `frames` is the number of samples, `init` the number of the init section.
    """

    sequence: int
    size: int
    duration: int
    frames: int
    init: int = 0
    discontinuity: bool = False


class MadeRendition(msgspec.Struct, frozen=True, kw_only=True):
    """One stored rendition: `inits` are the digests of its init sections by number.

    `size` is that of all its objects, in bytes.
    """

    name: str
    codecs: str
    size: int
    inits: dict[int, str]
    segments: tuple[MadeSegment, ...]


class MadePiece(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine made of a video, stored below `folder`; `cpu_ms` is CPU time by rung."""

    folder: str
    renditions: tuple[MadeRendition, ...]
    cpu_ms: dict[str, int] = {}
    warnings: dict[str, int] = {}

    @property
    def size(self) -> int:
        """The size of all renditions, in bytes."""
        return sum(each.size for each in self.renditions)


class _StoredRendition(msgspec.Struct):
    """What is stored of one rendition so far, and the parts of its unfinished segment."""

    codecs: str = ""
    parts: list[Part] = []
    segments: list[MadeSegment] = []
    inits: dict[int, str] = {}
    size: int = 0
    unfinished_bytes: int = 0  # of `parts`


class RenditionStore:
    """Stores the renditions `names` below the folder `folder` of a video."""

    def __init__(self, objects: Objects, *, hash_: str, folder: str, names: Sequence[str]) -> None:
        self._objects = objects
        self._prefix = f"{video(hash_)}/{folder}"
        self._renditions = {name: _StoredRendition() for name in names}

    async def store(self, report: InitSection | Part | Segment) -> None:
        """Store what an engine reported.

        Raises:
            ObjectError: it could not be stored.
            OutOfStep: it does not fit the reports before it.
        """
        rendition = self._renditions.get(report.rendition)
        if rendition is None:
            raise OutOfStep(f"unexpected rendition {report.rendition}")
        match report:
            case InitSection():
                rendition.codecs = report.codecs
                rendition.inits[report.number] = hashlib.sha256(report.data).hexdigest()[:32]
                await self._put(
                    rendition, f"{report.rendition}/init-{report.number}.mp4", report.data
                )
            case Part():
                rendition.unfinished_bytes += len(report.data)
                if rendition.unfinished_bytes > _MOST_UNFINISHED_BYTES:
                    raise OutOfStep(f"a segment of {report.rendition} does not end")
                rendition.parts.append(report)
            case Segment():
                await self._segment(rendition, report)

    def made(self, names: Sequence[str] | None = None) -> tuple[MadeRendition, ...]:
        """Return what is stored of the renditions `names`, or of all."""
        return tuple(
            MadeRendition(
                name=name,
                codecs=rendition.codecs,
                size=rendition.size,
                inits=dict(rendition.inits),
                segments=tuple(rendition.segments),
            )
            for name, rendition in self._renditions.items()
            if names is None or name in names
        )

    async def _segment(self, rendition: _StoredRendition, segment: Segment) -> None:
        parts, rendition.parts, rendition.unfinished_bytes = rendition.parts, [], 0
        data = b"".join(part.data for part in parts)
        if segment.gap or len(data) != segment.size or segment.init not in rendition.inits:
            raise OutOfStep(f"segment {segment.sequence} of {segment.rendition} is not its parts")
        await self._put(rendition, f"{segment.rendition}/{segment.sequence}.m4s", data)
        rendition.segments.append(
            MadeSegment(
                sequence=segment.sequence,
                size=segment.size,
                duration=segment.duration,
                frames=segment.frames,
                init=segment.init,
                discontinuity=segment.discontinuity,
            )
        )

    async def _put(self, rendition: _StoredRendition, name: str, data: bytes) -> None:
        await self._objects.put(f"{self._prefix}/{name}", data)
        rendition.size += len(data)
