"""The output of an engine: init sections, parts and segments of a rendition.

A part is one CMAF chunk (moof + mdat); a segment is the concatenation of its parts.
"""

from typing import Annotated

import msgspec


class EpochStart(msgspec.Struct, frozen=True, kw_only=True, tag="epoch start", gc=False):
    """The first packet of an epoch that is shown, reported before the epoch's first segment.

    It belongs at `start` on the run's output clock, in ticks of 90 000 a second, and came at
    `came_us`, in microseconds since the Unix epoch: the dates of the epoch follow from the two.
    """

    epoch: int
    start: int
    came_us: Annotated[int, msgspec.Meta(ge=0)]


class InitSection(msgspec.Struct, frozen=True, kw_only=True, tag="init"):
    """A rendition's initialisation section (ISO/IEC 14496-12: ftyp + moov).

    `number` counts the init sections of a rendition within a run; `codecs` is its RFC 6381 string.
    """

    rendition: str
    number: int
    codecs: str
    data: bytes


class SegmentStart(msgspec.Struct, frozen=True, kw_only=True, tag="segment start", gc=False):
    """The beginning of a segment, reported before its first part.

    All fields are as in the segment's own report, which comes after its last part. `borrowed`: its
    media are those of another rendition (see `delivery.run.borrowed_media`).
    """

    rendition: str
    sequence: int
    epoch: int
    start: int
    init: int
    discontinuity: bool
    borrowed: bool = False


class GapStart(msgspec.Struct, frozen=True, kw_only=True, tag="gap start", gc=False):
    """A live rendition will have nothing in a segment, or nothing beyond the parts that were sent.

    The segment's own report, with `gap`, comes when it is over.
    """

    rendition: str
    sequence: int


class Part(msgspec.Struct, frozen=True, kw_only=True, tag="part", gc=False):
    """A part of a segment: `sequence` is its segment's, `index` counts from 0 within it.

    `duration` is in ticks of 90 000 a second for every rendition, including audio. `independent`:
    it begins with a sync sample.
    """

    rendition: str
    sequence: int
    index: int
    duration: int
    independent: bool
    data: bytes


class Segment(msgspec.Struct, frozen=True, kw_only=True, tag="segment", gc=False):
    """A finished segment, which is sent after all its parts.

    `start` (presentation time of its first frame on the run's output clock) and `duration` are
    ticks of 90 000 a second for every rendition, including audio. `size` is in bytes, `frames` and
    `parts` are counts, `init` is the number of the init section it needs. `discontinuity`: its
    clock or coding does not continue its predecessor's; equal in all renditions of a sequence
    number. `epoch` is the number of its source (see the engine). `gap`: the rendition has no media
    here while the others have; `size`, `frames` and `parts` are 0, and `init` is the number of its
    newest init section (0 before the first). `followed`: the rendition continues after it without
    a break, in media of the same init section.
    """

    rendition: str
    sequence: int
    epoch: int
    start: int
    duration: int
    size: int
    frames: int
    parts: int
    init: int
    discontinuity: bool
    gap: bool = False
    followed: bool = True
