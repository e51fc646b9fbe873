"""What an engine makes: init sections, parts and segments of a rendition.

A part is one CMAF chunk (moof + mdat); a segment is its parts joined, byte for byte.
"""

import msgspec

__all__ = ["InitSection", "Part", "Segment"]


class InitSection(msgspec.Struct, frozen=True, kw_only=True, tag="init"):
    """A rendition's initialisation section (ISO/IEC 14496-12: ftyp + moov).

    `number` counts up by one within a rendition and a run; `codecs` is its RFC 6381 string.
    """

    rendition: str
    number: int
    codecs: str
    data: bytes


class Part(msgspec.Struct, frozen=True, kw_only=True, tag="part", gc=False):
    """A stretch of a segment: `sequence` is its segment's, `index` counts from 0 within it.

    `duration` is in ticks of 90 000 a second for every rendition, sound too. `independent` says
    that it begins with a sync sample.
    """

    rendition: str
    sequence: int
    index: int
    duration: int
    independent: bool
    data: bytes


class Segment(msgspec.Struct, frozen=True, kw_only=True, tag="segment", gc=False):
    """A finished segment: all its parts have been sent before it.

    `start` (presentation time of its first frame on the run's output clock) and `duration` are
    ticks of 90 000 a second for every rendition, sound too. `size` is in bytes, `frames` counts
    samples, `parts` its parts, `init` is the number of the init section it needs.
    `discontinuity` says that its clock or coding does not continue its predecessor's; it is equal
    in all renditions of one sequence number. `epoch` is the source it came from (see the engine).
    `gap` says that the rendition has nothing here while the others have: `size`, `frames` and
    `parts` are 0, and `init` is the number of its newest init section (0 where it has none yet).
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
