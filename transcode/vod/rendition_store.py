"""A file's renditions on their way to an object store, and what is known of them afterwards.

Segments are stored as they are made; playlists are written by `transcode.vod.playlists` when all is
there, so whoever can read one can read all that it names. One task at a time may call it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from media.hls.segment import InitSection, Part, Segment
from storage.objects.addresses import video
from storage.objects.base import Objects

__all__ = [
    "NOT_STORED",
    "OUT_OF_STEP",
    "MadePiece",
    "MadeRendition",
    "MadeSegment",
    "OutOfStep",
    "Renditions",
]

# Of one rendition's segment: four seconds at 500 Mbit/s, ten times what any rung has. An engine
# that a file has made its own could fill the memory of the service that listens to it.
_MOST_WAITING: Final = 256 << 20
# For owners.
NOT_STORED: Final = "The file could not be read, or what was made of it not stored."
OUT_OF_STEP: Final = "Transcoding made renditions that do not fit together."


class OutOfStep(Exception):
    """The renditions do not fit together, or there is none: ours to mend."""


class MadeSegment(msgspec.Struct, frozen=True, array_like=True):
    """A segment that is stored: bytes, ticks of 90 000 a second, samples; `init` is its section."""

    sequence: int
    size: int
    duration: int
    frames: int
    init: int = 0
    discontinuity: bool = False


class MadeRendition(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of one rendition: `inits` are digests of its init sections by number.

    `size` is all of its bytes.
    """

    name: str
    codecs: str
    size: int
    inits: dict[int, str]
    segments: tuple[MadeSegment, ...]


class MadePiece(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine made of a video, stored below `folder`; `cpu_ms` is what its rungs took."""

    folder: str
    renditions: tuple[MadeRendition, ...]
    cpu_ms: dict[str, int] = {}
    warnings: dict[str, int] = {}

    @property
    def size(self) -> int:
        """All of its bytes."""
        return sum(each.size for each in self.renditions)


class _Rendition(msgspec.Struct):
    """What there is of one rendition."""

    codecs: str = ""
    parts: list[Part] = []
    segments: list[MadeSegment] = []
    inits: dict[int, str] = {}
    size: int = 0
    waiting: int = 0  # bytes of parts


class Renditions:
    """The renditions `names` below the folder `folder` of a video."""

    def __init__(self, objects: Objects, *, hash_: str, folder: str, names: Sequence[str]) -> None:
        self._objects = objects
        self.folder = folder
        self._place = f"{video(hash_)}/{folder}"
        self._made = {name: _Rendition() for name in names}

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
                made.inits[report.number] = hashlib.sha256(report.data).hexdigest()[:32]
                await self._put(made, f"{report.rendition}/init-{report.number}.mp4", report.data)
            case Part():
                made.waiting += len(report.data)
                if made.waiting > _MOST_WAITING:
                    raise OutOfStep(f"a segment of {report.rendition} does not end")
                made.parts.append(report)
            case Segment():
                await self._segment(made, report)

    def made(self, names: Sequence[str] | None = None) -> tuple[MadeRendition, ...]:
        """Return what is stored, in the renditions `names` or in all."""
        return tuple(
            MadeRendition(
                name=name,
                codecs=made.codecs,
                size=made.size,
                inits=dict(made.inits),
                segments=tuple(made.segments),
            )
            for name, made in self._made.items()
            if names is None or name in names
        )

    async def _segment(self, made: _Rendition, segment: Segment) -> None:
        parts, made.parts, made.waiting = made.parts, [], 0
        data = b"".join(part.data for part in parts)
        if segment.gap or len(data) != segment.size or segment.init not in made.inits:
            raise OutOfStep(f"segment {segment.sequence} of {segment.rendition} is not its parts")
        await self._put(made, f"{segment.rendition}/{segment.sequence}.m4s", data)
        made.segments.append(
            MadeSegment(
                sequence=segment.sequence,
                size=segment.size,
                duration=segment.duration,
                frames=segment.frames,
                init=segment.init,
                discontinuity=segment.discontinuity,
            )
        )

    async def _put(self, made: _Rendition, name: str, data: bytes) -> None:
        await self._objects.put(f"{self._place}/{name}", data)
        made.size += len(data)
