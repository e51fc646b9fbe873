"""Parses the parts of H.264 that a packager needs: decoder configurations, sizes, NAL units.

Not a decoder: only the first byte of a slice is read. Access units and configurations have length
prefixes (AVCC), never start codes (Annex B). Any bytes give a value or `CodecError`.
Sources: ISO/IEC 14496-15, 5.3.3.1 (avcC); ISO/IEC 14496-10, 7.3.1 and 7.4.1 (NAL units).
"""

import re
from collections.abc import Iterator
from fractions import Fraction

import msgspec

from media.codecs import sps as parameters
from media.codecs.bits import CodecError
from media.codecs.sps import BASELINE, SPS, parse_sps

_IDR = 5  # nal_unit_type, table 7-1
PPS = 8
# Slices follow a delimiter, parameter sets and a few messages. A hostile access unit may have
# millions of those.
_MOST_UNITS = 64
_FORBIDDEN = 0x80  # forbidden_zero_bit, 7.3.1
_MAIN, _HIGH = 77, 100
# A decoder of a later profile also decodes the earlier ones (annex A), except for features of
# Baseline that encoders do not use.
_PROFILES = (BASELINE, _MAIN, _HIGH, 110, 122, 244)
_CODECS = re.compile(r"avc1\.([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})")


def covering_codecs(codecs: str, other_codecs: str) -> str:
    """Return the RFC 6381 string of a decoder that decodes both.

    It has the higher profile and the higher level. If either is unknown, return `other_codecs`.
    """
    values = [_CODECS.fullmatch(each) for each in (codecs, other_codecs)]
    parsed = [[int(digits, 16) for digits in each.groups()] for each in values if each is not None]
    if len(parsed) < 2 or any(profile not in _PROFILES for profile, _, _ in parsed):
        return other_codecs
    low, high = sorted(parsed, key=lambda each: _PROFILES.index(each[0]))
    constraints = high[1] & low[1] if high[0] == low[0] else high[1]
    return f"avc1.{high[0]:02X}{constraints:02X}{max(high[2], low[2]):02X}"


class AvcConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder configuration record with the contents of its first sequence parameter set.

    `width` and `height` are pixels after cropping, `aspect` is the ratio of a pixel's width to its
    height. `length_size` is the size of a NAL unit's length prefix in bytes, and `colours` are as
    in `Vui`. `frame_rate` is the encoder's claim, from the VUI's timing; `reorder` bounds how many
    frames may be displayed before one that was coded earlier. Both are None if not given.
    """

    profile: int
    compatibility: int
    level: int
    length_size: int
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]
    width: int
    height: int
    aspect: Fraction
    chroma_format: int
    bit_depth: int
    colours: int
    frame_rate: Fraction | None
    reorder: int | None
    interlaced: bool

    @property
    def codecs(self) -> str:
        """The RFC 6381 string, for example `avc1.64001F`."""
        return f"avc1.{self.profile:02X}{self.compatibility:02X}{self.level:02X}"

    @property
    def plays_everywhere(self) -> bool:
        """True if every browser and device with H.264 plays it."""
        return (
            self.profile in (BASELINE, _MAIN, _HIGH)
            and self.chroma_format == 1
            and self.bit_depth == 8
            and not self.interlaced
        )

    @classmethod
    def parse(cls, data: bytes) -> "AvcConfig":
        """Parse an AVCDecoderConfigurationRecord.

        Raises:
            CodecError: it is invalid, has no parameter sets, or its picture size is out of bounds.
        """
        if len(data) < 7 or data[0] != 1:
            raise CodecError("no avcC record of version 1")
        length_size = (data[4] & 3) + 1
        if length_size == 3:
            raise CodecError("NAL unit lengths of 3 bytes")
        sps, place = _sets(data, 6, data[5] & 0x1F, SPS)
        if place >= len(data):
            raise CodecError("the record ends before its picture parameter sets")
        pps, _ = _sets(data, place + 1, data[place], PPS)
        if not sps or not pps:
            raise CodecError("a record without parameter sets")
        facts = parse_sps(sps[0])
        return cls(
            # From the SPS, not from the record: some encoders write constants into the latter.
            profile=sps[0][1],
            compatibility=sps[0][2],
            level=sps[0][3],
            length_size=length_size,
            sps=sps,
            pps=pps,
            width=facts.width,
            height=facts.height,
            aspect=facts.vui.aspect,
            chroma_format=facts.chroma_format,
            bit_depth=facts.bit_depth,
            colours=facts.vui.colours,
            frame_rate=facts.vui.frame_rate,
            reorder=0 if facts.in_order else facts.vui.reorder,
            interlaced=facts.interlaced,
        )


def without_timing(data: bytes) -> bytes:
    """Return an AVCDecoderConfigurationRecord whose parameter sets name no frame rate.

    Raises:
        CodecError: as `AvcConfig.parse`.
    """
    config = AvcConfig.parse(data)
    _, end = _sets(data, 6, len(config.sps), SPS)
    units = [parameters.without_timing(unit) for unit in config.sps]
    return data[:6] + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units) + data[end:]


def nal_units(data: bytes, length_size: int) -> list[bytes]:
    """Return an access unit's NAL units without lengths and without empty units.

    Raises:
        CodecError: a length exceeds the data.
    """
    return [data[start:end] for start, end in _spans(data, length_size)]


def is_idr(data: bytes, length_size: int) -> bool:
    """Return whether an access unit is an IDR picture, at which decoding can always begin.

    All of its NAL units are checked, so its cost grows with their number; `first_slice_is_idr` is
    for processes that must not be held up.

    Raises:
        CodecError: a length exceeds the data.
    """
    has_idr = False
    for start, _ in _spans(data, length_size):
        has_idr = has_idr or data[start] & 0x1F == _IDR
    return has_idr


def first_slice_is_idr(data: bytes, length_size: int) -> bool:
    """Return whether an access unit is an IDR picture, by its first slice; False if it is invalid.

    No more is read than by `leading_units`.
    """
    # All slices of an IDR picture have the same type, so the first decides (7.4.1.2.4).
    return any(data[start] & 0x1F == _IDR for start, _ in leading_units(data, length_size))


def leading_units(data: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    """Yield where the NAL units of an access unit begin and end, up to the first slice's.

    At most `_MOST_UNITS` are read; an invalid length ends them.
    """
    place, total = 0, len(data)
    for _ in range(_MOST_UNITS):
        start = place + length_size
        place = start + int.from_bytes(data[place:start], "big")
        if start >= total or place > total:
            return
        if place > start:
            yield start, place
            if 1 <= data[start] & 0x1F <= _IDR:
                return


def is_picture(data: bytes, length_size: int) -> bool:
    """Return whether an access unit has a slice, and no unit with the forbidden bit (7.4.1).

    Raises:
        CodecError: a length exceeds the data.
    """
    has_slice, whole = False, True
    for start, _ in _spans(data, length_size):
        has_slice = has_slice or 1 <= data[start] & 0x1F <= _IDR
        whole = whole and data[start] < _FORBIDDEN
    return has_slice and whole


def _spans(data: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    place, total = 0, len(data)
    while place < total:
        start = place + length_size
        if start > total:
            raise CodecError("a NAL unit's length is cut off")
        place = start + int.from_bytes(data[place:start], "big")
        if place > total:
            raise CodecError("a NAL unit is cut off")
        if place > start:
            yield start, place


def _sets(data: bytes, place: int, count: int, kind: int) -> tuple[tuple[bytes, ...], int]:
    sets: list[bytes] = []
    for _ in range(count):
        start = place + 2
        place = start + int.from_bytes(data[place:start], "big")
        if start > len(data) or place > len(data):
            raise CodecError("the record ends within a parameter set")
        if place == start or data[start] & 0x1F != kind:
            raise CodecError("a parameter set of another kind")
        sets.append(data[start:place])
    return tuple(sets), place
