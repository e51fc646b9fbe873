"""By what another process knows the clock of an encoder again, whose media it has, too.

Hosts share no connection, but what an encoder has sent over one: a packet with the same time and
the same bytes has been sent by the same encoder, on the same clock.
"""

from collections.abc import Callable
from typing import Self
from zlib import crc32

import msgspec

from media.packet import MediaPacket
from media.ticks import VIDEO_SCALE, rescale


class SourceMark(msgspec.Struct, frozen=True, kw_only=True):
    """A keyframe that an encoder has sent: its time, and a digest of its bytes.

    `apart` is what to add to a time of the source on air for this encoder's of the same moment of
    the programme, 0 for that source itself. In ticks of 90 000 a second.
    """

    pts: int
    digest: int
    apart: int = 0

    @classmethod
    def of(cls, keyframe: MediaPacket, apart: float = 0.0) -> Self:
        """Return the mark of an encoder that is `apart` seconds from the source on air."""
        return cls(
            pts=rescale(keyframe.pts, keyframe.track.scale, VIDEO_SCALE),
            digest=crc32(keyframe.data),
            apart=round(apart * VIDEO_SCALE),
        )

    def is_of(self, pts: int, scale: int, data: bytes) -> bool:
        """Return whether a packet is that keyframe; `pts` is of `scale` ticks a second."""
        return rescale(pts, scale, VIDEO_SCALE) == self.pts and crc32(data) == self.digest


# The marks of the encoders whose clocks can be told from that of a source, which is on air.
FindMarks = Callable[[], tuple[SourceMark, ...]]


def no_marks() -> tuple[SourceMark, ...]:
    """Return that no encoder is known."""
    return ()


class ProgrammePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the programme is in a run: the time 0 of the source on air is at `offset` on the output
    clock, in ticks of 90 000 a second. `marks` are those of its encoders.
    """

    offset: int
    marks: tuple[SourceMark, ...]
