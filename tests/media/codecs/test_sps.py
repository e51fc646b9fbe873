"""Sequence parameter sets, written bit by bit and read back."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.sps import MAX_SIDE, Sps, parse_sps, without_timing

HIGH, HIGH_444, MAIN, BASELINE = 100, 244, 77, 66


class BitWriter:
    """Puts bits together as 14496-10 writes them, emulation prevention included."""

    def __init__(self) -> None:
        self.bits = ""

    def u(self, width: int, number: int) -> "BitWriter":
        self.bits += f"{number:0{width}b}"
        return self

    def ue(self, *numbers: int) -> "BitWriter":
        for number in numbers:
            code = f"{number + 1:b}"
            self.bits += "0" * (len(code) - 1) + code
        return self

    def unit(self) -> bytes:
        bits = self.bits + "1"
        bits += "0" * (-len(bits) % 8)
        out, zeros = bytearray(b"\x67"), 0
        for byte in int(bits, 2).to_bytes(len(bits) // 8, "big"):
            if zeros == 2 and byte <= 3:
                out.append(3)
                zeros = 0
            out.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        return bytes(out)


def start(profile: int = HIGH, chroma: int = 1, depth: int = 8) -> BitWriter:
    writer = BitWriter().u(8, profile).u(8, 0).u(8, 31).ue(0)
    if profile in (HIGH, HIGH_444):
        writer.ue(chroma)
        if chroma == 3:
            writer.u(1, 0)
        writer.ue(depth - 8, depth - 8).u(1, 0).u(1, 0)
    return writer


def finish(
    writer: BitWriter,
    across: int = 80,
    down: int = 45,
    *,
    fields: bool = False,
    crop: tuple[int, int, int, int] | None = None,
    vui: str | None = None,
) -> bytes:
    """Write all from log2_max_frame_num on; sizes in macroblocks (and map units)."""
    writer.ue(0, 0, 0, 4).u(1, 0).ue(across - 1, down - 1)
    writer.u(1, not fields)
    if fields:
        writer.u(1, 1)
    writer.u(1, 1).u(1, crop is not None)
    if crop is not None:
        writer.ue(*crop)
    writer.u(1, vui is not None)
    writer.bits += vui or ""
    return writer.unit()


def size(sps: Sps) -> tuple[int, int]:
    return sps.width, sps.height


@given(
    across=st.integers(1, 500),
    down=st.integers(1, 250),
    fields=st.booleans(),
    chroma=st.sampled_from(
        [(HIGH, 0, 1, 1), (HIGH, 1, 2, 2), (HIGH, 2, 2, 1), (HIGH_444, 3, 1, 1)]
    ),
    crop=st.tuples(*[st.integers(0, 3)] * 4),
)
def test_sizes_are_what_is_left_after_cropping(
    across: int,
    down: int,
    fields: bool,
    chroma: tuple[int, int, int, int],
    crop: tuple[int, int, int, int],
) -> None:
    profile, code, columns, rows = chroma
    frames = 2 if fields else 1
    width = 16 * across - columns * (crop[0] + crop[1])
    height = 16 * down * frames - rows * frames * (crop[2] + crop[3])
    unit = finish(start(profile, code), across, down, fields=fields, crop=crop)
    if width <= 0 or height <= 0:
        with pytest.raises(CodecError):
            parse_sps(unit)
        return
    sps = parse_sps(unit)
    assert size(sps) == (width, height)
    assert sps.chroma_format == code
    assert sps.interlaced is fields


@pytest.mark.parametrize(("across", "down"), [(1024, 1024), (1, 1024), (1024, 1)])
def test_the_largest_picture_is_taken(across: int, down: int) -> None:
    assert max(size(parse_sps(finish(start(), across, down)))) == MAX_SIDE


@pytest.mark.parametrize(
    ("across", "down", "fields"),
    [
        pytest.param(1025, 45, False, id="too wide"),
        pytest.param(80, 1025, False, id="too high"),
        pytest.param(80, 513, True, id="too high in two fields"),
        pytest.param(1 << 31, 1 << 31, False, id="absurd"),
    ],
)
def test_a_picture_out_of_bounds_is_refused(across: int, down: int, fields: bool) -> None:
    with pytest.raises(CodecError):
        parse_sps(finish(start(), across, down, fields=fields))


def test_cropping_everything_away_is_refused() -> None:
    with pytest.raises(CodecError):
        parse_sps(finish(start(), 1, 1, crop=(4, 4, 0, 0)))


def test_the_deeper_of_luma_and_chroma_counts() -> None:
    writer = BitWriter().u(24, HIGH << 16 | 31).ue(0, 1, 0, 2).u(2, 0)
    assert parse_sps(finish(writer)).bit_depth == 10


def test_scaling_lists_are_read_past_with_their_early_ends() -> None:
    writer = BitWriter().u(24, HIGH << 16 | 31).ue(0, 1, 0, 0).u(1, 0).u(1, 1)
    writer.u(1, 1).ue(*[1] * 16)  # a whole list of 4 x 4
    writer.u(1, 1).ue(16)  # -8: the next scale is 0, the list ends with its first number
    writer.u(4, 0)
    writer.u(1, 1).ue(*[0] * 64)
    writer.u(1, 0)
    assert size(parse_sps(finish(writer, 40, 23, crop=(0, 0, 0, 4)))) == (640, 360)


@pytest.mark.parametrize("profile", [MAIN, BASELINE])
def test_profiles_that_do_not_say_are_4_2_0_of_8_bits(profile: int) -> None:
    sps = parse_sps(finish(start(profile)))
    assert (sps.chroma_format, sps.bit_depth, sps.interlaced) == (1, 8, False)
    assert sps.in_order is (profile == BASELINE)


def test_picture_order_type_2_means_that_nothing_is_reordered() -> None:
    writer = start(MAIN).ue(0, 2, 4).u(1, 0).ue(79, 44).u(4, 0b1100)
    assert parse_sps(writer.unit()).in_order


def test_picture_order_type_1_is_read_past() -> None:
    writer = start(MAIN).ue(0, 1).u(1, 0).ue(3, 4, 2, 9, 9, 4).u(1, 0).ue(79, 44).u(4, 0b1100)
    assert size(parse_sps(writer.unit())) == (1280, 720)


def vui(
    aspect: str = "0", display: str = "000", timing: str = "0", buffers: str = "00", end: str = "00"
) -> str:
    return aspect + display + timing + buffers + end


def timing(tick: int, scale: int) -> str:
    return BitWriter().u(1, 1).u(32, tick).u(32, scale).u(1, 1).bits


@pytest.mark.parametrize(
    ("tick", "scale", "rate"),
    [
        pytest.param(1, 60, Fraction(30), id="30"),
        pytest.param(1001, 60_000, Fraction(30_000, 1001), id="29.97"),
        pytest.param(1, 600, Fraction(300), id="300"),
        pytest.param(1, 180_000, None, id="a time base"),
        pytest.param(0, 60, None, id="no tick"),
        pytest.param(1, 0, None, id="no scale"),
    ],
)
def test_a_frame_lasts_two_ticks(tick: int, scale: int, rate: Fraction | None) -> None:
    assert parse_sps(finish(start(), vui=vui(timing=timing(tick, scale)))).vui.frame_rate == rate


@given(st.tuples(*[st.integers(0, (1 << 32) - 1)] * 2), st.integers(0, 1000))
def test_only_the_frame_rate_is_taken_out(numbers: tuple[int, int], reorder: int) -> None:
    end = BitWriter().u(1, 1).u(1, 1).u(1, 1).ue(0, 0, 11, 11, reorder, 4).bits
    made = finish(start(), vui=vui(timing=timing(*numbers), end=end))
    assert without_timing(made) == finish(start(), vui=vui(end=end))


@pytest.mark.parametrize("bits", [None, vui(), vui(aspect="1"), "1" + f"{3:08b}"])
def test_a_set_without_a_frame_rate_stays_as_it_is(bits: str | None) -> None:
    unit = finish(start(), vui=bits)
    assert without_timing(unit) == unit


@pytest.mark.parametrize(
    ("bits", "aspect"),
    [
        pytest.param(BitWriter().u(9, 0x100 | 1).bits, Fraction(1), id="square"),
        pytest.param(BitWriter().u(9, 0x100 | 3).bits, Fraction(10, 11), id="named"),
        pytest.param(
            BitWriter().u(9, 0x100 | 255).u(32, 4 << 16 | 3).bits, Fraction(4, 3), id="own"
        ),
        pytest.param(BitWriter().u(9, 0x100 | 255).u(32, 4 << 16).bits, Fraction(1), id="by zero"),
        pytest.param(BitWriter().u(9, 0x100 | 99).bits, Fraction(1), id="reserved"),
    ],
)
def test_a_pixels_shape(bits: str, aspect: Fraction) -> None:
    assert parse_sps(finish(start(), vui=vui(aspect=bits))).vui.aspect == aspect


def test_everything_before_the_reordering_is_read_past() -> None:
    decoder = BitWriter().u(1, 1).ue(1).u(8, 0).ue(7, 8).u(1, 0).ue(9, 10).u(1, 1).u(20, 0).bits
    bits = vui(
        display=BitWriter()
        .u(2, 0b11)
        .u(1, 1)
        .u(4, 5)
        .u(1, 1)
        .u(24, 0x010101)
        .u(1, 1)
        .ue(1, 1)
        .bits,
        timing=timing(1, 50),
        buffers=decoder + decoder + "0",
        end=BitWriter().u(1, 1).u(1, 1).u(1, 1).ue(0, 0, 11, 11, 3, 4).bits,
    )
    parsed_vui = parse_sps(finish(start(), vui=bits)).vui
    assert (parsed_vui.frame_rate, parsed_vui.reorder) == (Fraction(25), 3)


def test_a_vui_that_is_cut_off_keeps_what_was_read() -> None:
    unit = finish(start(), vui="1" + f"{3:08b}")
    parsed_vui = parse_sps(unit).vui
    assert parsed_vui.aspect == Fraction(10, 11)
    assert parsed_vui.frame_rate is None


def test_a_set_that_is_cut_off_is_refused() -> None:
    whole = finish(start(), crop=(0, 0, 0, 0))
    for length in range(len(whole) - 1):  # the last byte holds no more than the stop bit
        with pytest.raises(CodecError):
            parse_sps(whole[:length])


def test_another_nal_unit_and_one_too_long_are_refused() -> None:
    whole = finish(start())
    with pytest.raises(CodecError, match="no sequence parameter set"):
        parse_sps(b"\x68" + whole[1:])
    with pytest.raises(CodecError, match="no sequence parameter set"):
        parse_sps(whole + bytes(5000))


@given(st.binary(max_size=64), st.sampled_from([HIGH, HIGH_444, MAIN, BASELINE, 118]))
def test_any_bytes_give_a_bounded_picture_or_the_error(tail: bytes, profile: int) -> None:
    try:
        sps = parse_sps(bytes((0x67, profile, 0, 31)) + tail)
    except CodecError:
        return
    assert 0 < sps.width <= MAX_SIDE
    assert 0 < sps.height <= MAX_SIDE
    assert 8 <= sps.bit_depth <= 14
