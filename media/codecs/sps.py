"""Parses H.264's sequence parameter set: the picture's size, sampling and timing.

It can also take the frame rate out. Numbers are bounded. Any bytes give a value or `CodecError`.
Sources: ISO/IEC 14496-10, 7.3.2.1.1 (syntax), 7.4.1 (escapes), 7.4.2.1.1 (bounds), Annex E (VUI).
"""

import re
from fractions import Fraction
from typing import Final

import msgspec

from media.codecs.bits import BitReader, CodecError

MAX_SIDE: Final = (
    16_384  # level 6.2 ends at 16 880 luma samples a side; larger than any live stream
)
# The longest legal SPS is near 1 KiB (scaling lists and 255 reference offsets).
_MAX_SPS: Final = 4_096
# With a variable frame rate libx264 writes its time base here: 90 000 "frames" a second.
_MAX_FRAME_RATE: Final = 300

SPS: Final = 7  # nal_unit_type
BASELINE: Final = 66
# The profiles whose SPS contains the chroma format and bit depth (7.3.2.1.1).
PROFILES_WITH_CHROMA: Final = frozenset(
    {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135}
)
# chroma_format_idc -> how many luma columns and rows one chroma sample covers (table 6-1
# of both H.264 and H.265).
SUBSAMPLING: Final = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}
# Table E-1, from aspect_ratio_idc 1.
_ASPECTS: Final = (
    (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11),
    (80, 33), (18, 11), (15, 11), (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip
_EXTENDED_ASPECT: Final = 255
# Unspecified primaries, transfer and matrix (tables E-3 to E-5).
_NO_COLOURS: Final = 0x02_02_02
# A flag, two numbers of 32 bits and another flag (E.1.1).
_TIMING_BITS: Final = 66
# Two zeros that a small byte follows.
_ESCAPED: Final = re.compile(rb"\x00\x00(?=[\x00-\x03])")


class Vui(msgspec.Struct):
    """The video usability information, as far as it could be read.

    `colours` are the range (bit 24: full), primaries, transfer and matrix, a byte each. `timing` is
    the number of bits before the flag of the frame rate, without escapes; None if the
    set names none.
    """

    aspect: Fraction = Fraction(1)
    colours: int = _NO_COLOURS
    frame_rate: Fraction | None = None
    timing: int | None = None
    reorder: int | None = None


class Sps(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a sequence parameter set.

    `width` and `height` are pixels after cropping, `bit_depth` is the deeper of luma and chroma.
    `in_order`: pictures are displayed in coding order.
    """

    width: int
    height: int
    chroma_format: int
    bit_depth: int
    in_order: bool
    interlaced: bool
    vui: Vui


def parse_sps(unit: bytes) -> Sps:
    """Parse the NAL unit of a sequence parameter set.

    Raises:
        CodecError: it is another unit, is truncated, or has a value out of bounds.
    """
    if not 4 <= len(unit) <= _MAX_SPS or unit[0] & 0x1F != SPS:
        raise CodecError("no sequence parameter set")
    bits = BitReader(_unescaped(unit), start=8)
    profile = bits.u(8)
    bits.u(16)
    bits.ue(31)
    chroma_format, planes_apart, bit_depth = 1, False, 8
    if profile in PROFILES_WITH_CHROMA:
        chroma_format = bits.ue(3)
        planes_apart = chroma_format == 3 and bits.flag()
        bit_depth = 8 + max(bits.ue(6), bits.ue(6))
        bits.flag()
        if bits.flag():
            _skip_scaling_lists(bits, 12 if chroma_format == 3 else 8)
    bits.ue(12)
    in_order = _picture_order(bits)
    bits.ue(16)
    bits.flag()
    width, rows = 16 * (bits.ue(MAX_SIDE // 16) + 1), 16 * (bits.ue(MAX_SIDE // 16) + 1)
    frames_only = bits.flag()
    fields = 1 if frames_only else 2
    if not frames_only:
        bits.flag()
    bits.flag()
    left = right = top = bottom = 0
    if bits.flag():
        left, right, top, bottom = (bits.ue(MAX_SIDE) for _ in range(4))
    across, down = SUBSAMPLING[0 if planes_apart else chroma_format]
    width -= across * (left + right)
    height = rows * fields - down * fields * (top + bottom)
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise CodecError(f"a picture of {width} x {height}")
    vui = Vui()
    if bits.flag():
        _read_vui(bits, vui)
    return Sps(
        width=width,
        height=height,
        chroma_format=chroma_format,
        bit_depth=bit_depth,
        in_order=in_order or profile == BASELINE,
        interlaced=not frames_only,
        vui=vui,
    )


def without_timing(unit: bytes) -> bytes:
    """Return a sequence parameter set that names no frame rate; the unit itself if it names none.

    Raises:
        CodecError: as `parse_sps`.
    """
    place = parse_sps(unit).vui.timing
    if place is None:
        return unit
    data = _unescaped(unit)
    bits = f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"
    # The last 1 is the end's mark (7.3.2.11), whose place within its byte changes.
    kept = f"{bits[:place]}0{bits[place + _TIMING_BITS : bits.rindex('1')]}1"
    size = -(-len(kept) // 8)
    short = int(kept.ljust(8 * size, "0"), 2).to_bytes(size, "big")
    return _ESCAPED.sub(b"\x00\x00\x03", short)


def _unescaped(unit: bytes) -> bytes:
    """Return a NAL unit without emulation prevention: encoders insert a 3 after two zeros."""
    return unit.replace(b"\x00\x00\x03", b"\x00\x00")


def _skip_scaling_lists(bits: BitReader, count: int) -> None:
    """Skip the scaling lists (7.3.2.1.1.1); a list ends early when its next scale is 0."""
    for number in range(count):
        if not bits.flag():
            continue
        last = scale = 8
        for _ in range(16 if number < 6 else 64):
            if scale:
                scale = (last + bits.se(128)) % 256
            last = scale or last


def _picture_order(bits: BitReader) -> bool:
    """Skip the picture order count; return whether it excludes reordering (type 2)."""
    kind = bits.ue(2)
    if kind == 0:
        bits.ue(12)
    elif kind == 1:
        bits.flag()
        bits.se()
        bits.se()
        for _ in range(bits.ue(255)):
            bits.se()
    return kind == 2


def _read_vui(bits: BitReader, vui: Vui) -> None:
    """Fill `vui`; a truncated or invalid VUI ends without an error.

    Hardware encoders are known to truncate it, and FFmpeg plays their streams.
    """
    try:
        if bits.flag():
            vui.aspect = _aspect(bits)
        _read_display(bits, vui)
        place = bits.place
        if bits.flag():
            tick, scale = bits.u(32), bits.u(32)
            bits.flag()
            vui.timing = place
            if tick and scale:
                # A tick is the duration of a field, even in frame-only streams (E.2.1).
                rate = Fraction(scale, 2 * tick)
                vui.frame_rate = rate if rate <= _MAX_FRAME_RATE else None
        _skip_buffering(bits)
        bits.flag()  # pic_struct
        if bits.flag():
            bits.flag()
            for _ in range(4):
                bits.ue(16)
            vui.reorder = bits.ue(16)
    except CodecError:
        return


def _aspect(bits: BitReader) -> Fraction:
    number = bits.u(8)
    if number == _EXTENDED_ASPECT:
        across, down = bits.u(16), bits.u(16)
        return Fraction(across, down) if across and down else Fraction(1)
    return Fraction(*_ASPECTS[number - 1]) if 1 <= number <= len(_ASPECTS) else Fraction(1)


def _read_display(bits: BitReader, vui: Vui) -> None:
    """Read the colours; skip overscan and chroma sample location."""
    if bits.flag():
        bits.flag()
    if bits.flag():
        bits.u(3)
        is_full_range = bits.flag()
        colours = bits.u(24) if bits.flag() else _NO_COLOURS
        vui.colours = is_full_range << 24 | colours
    if bits.flag():
        bits.ue(5)
        bits.ue(5)


def _skip_buffering(bits: BitReader) -> None:
    """Skip the two hypothetical reference decoders (E.1.2)."""
    decoders = 0
    for _ in range(2):
        if bits.flag():
            decoders += 1
            count = bits.ue(31) + 1
            bits.u(8)
            for _ in range(count):
                bits.ue((1 << 32) - 2)
                bits.ue((1 << 32) - 2)
                bits.flag()
            bits.u(20)
    if decoders:
        bits.flag()
