"""Decoder configurations and access units as libx264 writes them, whole and damaged."""

from collections.abc import Callable
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.avc import (
    AvcConfig,
    covering_codecs,
    first_slice_is_idr,
    is_idr,
    is_picture,
    nal_units,
    without_timing,
)
from media.codecs.bits import CodecError
from media.codecs.sps import MAX_SIDE
from media.hls.fmp4 import Sample
from tests.support.media.avc_records import config_of

Coded = tuple[bytes, list[Sample]]
Encode = Callable[..., Coded]

# A record of 1280 x 720 at 30 frames a second, High profile, level 3.1, as libx264 makes it.
RECORD = bytes.fromhex(
    "0164001fffe1001c6764001facd9405005bb016a02020280000003008000001e478c18cb01000668ebe3cb22c0"
    "fdf8f800"
)
CONFIG = AvcConfig.parse(RECORD)
AUD, SEI, IDR, SLICE = b"\x09\xf0", b"\x06\x05\x01\x00\x80", b"\x65\x88\x84", b"\x41\x9a\x24"


def unit(*parts: bytes, size: int = 4) -> bytes:
    return b"".join(len(part).to_bytes(size, "big") + part for part in parts)


def test_a_record_loses_its_frame_rate_and_keeps_all_else() -> None:
    record = without_timing(RECORD)
    config = AvcConfig.parse(record)
    assert config == msgspec.structs.replace(CONFIG, frame_rate=None, sps=config.sps)
    assert record.endswith(RECORD[-13:])  # the picture parameter set and what follows it
    assert without_timing(record) == record


def test_a_record_has_all_that_a_playlist_needs() -> None:
    assert (CONFIG.width, CONFIG.height, CONFIG.codecs) == (1280, 720, "avc1.64001F")
    assert (CONFIG.length_size, len(CONFIG.sps), len(CONFIG.pps)) == (4, 1, 1)
    assert (CONFIG.chroma_format, CONFIG.bit_depth, CONFIG.aspect) == (1, 8, 1)
    assert (CONFIG.frame_rate, CONFIG.reorder) == (30, 2)
    assert CONFIG.plays_everywhere


@pytest.mark.parametrize(
    ("width", "height", "pixels", "parameters", "plays"),
    [
        pytest.param(320, 180, "yuv420p", "", True, id="high"),
        pytest.param(854, 480, "yuv420p", "profile=main", True, id="cropped"),
        pytest.param(64, 130, "yuv420p", "bframes=0:cabac=0:8x8dct=0", True, id="portrait"),
        pytest.param(321, 181, "yuv444p", "", False, id="4:4:4 of odd size"),
        pytest.param(320, 180, "yuv422p", "", False, id="4:2:2"),
        pytest.param(320, 180, "yuv420p10le", "", False, id="10 bit"),
        pytest.param(320, 192, "yuv420p", "interlaced=1", False, id="interlaced"),
        pytest.param(320, 200, "yuv420p", "tff=1", False, id="interlaced and cropped"),
        pytest.param(320, 180, "gray", "", False, id="without colour"),
    ],
)
def test_what_libx264_writes_is_read(
    video: Encode, width: int, height: int, pixels: str, parameters: str, plays: bool
) -> None:
    config = AvcConfig.parse(video(width, height, pixels=pixels, parameters=parameters)[0])
    assert (config.width, config.height) == (width, height)
    assert config.frame_rate == 30
    assert config.bit_depth == (10 if "10" in pixels else 8)
    assert config.interlaced is (parameters in ("interlaced=1", "tff=1"))
    assert config.plays_everywhere is plays


def test_a_pixels_shape_is_read(video: Encode) -> None:
    record, _ = video(704, 576, aspect=Fraction(16, 11))
    assert AvcConfig.parse(record).aspect == Fraction(16, 11)


def test_profile_and_level_come_from_the_sps_where_the_record_is_wrong() -> None:
    lying = b"\x01\x42\xe0\x0a" + RECORD[4:]
    assert AvcConfig.parse(lying) == CONFIG


def test_a_record_without_the_high_profiles_tail_is_read() -> None:
    # Several hardware encoders omit it.
    assert AvcConfig.parse(RECORD[:-4]) == CONFIG


def test_a_record_made_of_its_sets_is_the_same_record() -> None:
    assert config_of(CONFIG.sps[0], CONFIG.pps[0]) == RECORD


@pytest.mark.parametrize("length", range(len(RECORD) - 4))
def test_a_record_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(CodecError):
        AvcConfig.parse(RECORD[:length])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"\x00" + RECORD[1:], "version 1", id="another version"),
        pytest.param(RECORD[:4] + b"\xfe" + RECORD[5:], "3 bytes", id="lengths of 3 bytes"),
        pytest.param(RECORD[:5] + b"\xe0\x00\x00", "without parameter sets", id="no sets"),
        pytest.param(RECORD[:8] + b"\x68" + RECORD[9:], "another kind", id="PPS for SPS"),
        pytest.param(b"\x00\x00\x00\x01" + CONFIG.sps[0], "version 1", id="Annex B"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(CodecError, match=why):
        AvcConfig.parse(data)


@given(offset=st.integers(0, len(RECORD) - 1), byte=st.integers(0, 255))
def test_a_damaged_record_gives_a_bounded_picture_or_the_error(offset: int, byte: int) -> None:
    try:
        config = AvcConfig.parse(RECORD[:offset] + bytes((byte,)) + RECORD[offset + 1 :])
    except CodecError:
        return
    assert 0 < config.width <= MAX_SIDE
    assert 0 < config.height <= MAX_SIDE


@given(st.binary(max_size=200))
def test_any_bytes_give_a_config_or_the_error(data: bytes) -> None:
    for record in (data, b"\x01\x64\x00\x1f\xff" + data):
        try:
            assert AvcConfig.parse(record).sps
        except CodecError:
            continue


@pytest.mark.parametrize("size", [1, 2, 4])
def test_nal_units_come_without_their_lengths(size: int) -> None:
    assert nal_units(unit(AUD, b"", SEI, IDR, size=size), size) == [AUD, SEI, IDR]
    assert nal_units(b"", size) == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param((IDR,), True, id="alone"),
        pytest.param((AUD, *CONFIG.sps, *CONFIG.pps, SEI, IDR), True, id="behind all else"),
        pytest.param((SLICE,), False, id="not"),
        pytest.param((AUD, SEI, SLICE, SLICE), False, id="recovery point of an open GOP"),
        pytest.param((*CONFIG.sps, *CONFIG.pps), False, id="sets alone"),
        pytest.param((), False, id="nothing"),
    ],
)
def test_an_idr_is_known_by_its_nal_units(parts: tuple[bytes, ...], expected: bool) -> None:
    assert is_idr(unit(*parts), 4) is expected
    assert first_slice_is_idr(unit(*parts), 4) is expected


@pytest.mark.parametrize("filler", [SEI, b""])
def test_an_idr_is_looked_for_among_64_units(filler: bytes) -> None:
    assert first_slice_is_idr(unit(*[filler] * 63, IDR), 4)
    assert not first_slice_is_idr(unit(*[filler] * 64, IDR), 4)


def test_the_first_slice_decides() -> None:
    assert first_slice_is_idr(unit(IDR) + b"\0\0\0\xff", 4)
    assert not first_slice_is_idr(unit(SLICE, IDR), 4)


def test_an_encoders_keyframes_are_its_idrs(picture: Coded) -> None:
    _, samples = picture
    assert sum(sample.key for sample in samples) == 2
    assert all(is_idr(sample.data, 4) is sample.key for sample in samples)


def test_an_open_gops_keyframe_is_no_idr(video: Encode) -> None:
    _, samples = video(frames=40, parameters="open-gop=1:keyint=10:min-keyint=1:scenecut=0")
    keys = [is_idr(sample.data, 4) for sample in samples if sample.key]
    assert keys == [True, False, False, False]


@given(st.binary(max_size=40), st.sampled_from([1, 2, 4]))
def test_any_access_unit_gives_an_answer_or_the_error(data: bytes, size: int) -> None:
    try:
        units = nal_units(data, size)
    except CodecError:
        with pytest.raises(CodecError):
            is_idr(data, size)
        assert first_slice_is_idr(data, size) in (True, False)
        return
    assert is_idr(data, size) is any(part[0] & 0x1F == 5 for part in units)
    first = next((part[0] & 0x1F for part in units if 1 <= part[0] & 0x1F <= 5), 0)
    assert first_slice_is_idr(data, size) is (first == 5)


@pytest.mark.parametrize("missing", [1, 3, 4, 6])
def test_a_truncated_access_unit_is_refused(missing: int) -> None:
    whole = unit(SEI, IDR)
    with pytest.raises(CodecError):
        is_idr(whole[:-missing], 4)
    assert not first_slice_is_idr(whole[:-missing], 4)
    with pytest.raises(CodecError):
        nal_units(whole[:-missing], 4)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param((AUD, SEI, IDR), True, id="an IDR picture"),
        pytest.param((SLICE, SLICE), True, id="a picture of two slices"),
        pytest.param((AUD, SEI), False, id="no slice"),
        pytest.param((SLICE, b"\xc1\x9a"), False, id="a unit marked as broken"),
        pytest.param((), False, id="nothing"),
    ],
)
def test_a_picture_has_a_slice_and_no_broken_unit(parts: tuple[bytes, ...], expected: bool) -> None:
    assert is_picture(unit(*parts), 4) is expected


def test_a_picture_that_is_cut_off_is_none() -> None:
    whole = unit(AUD, IDR)
    for missing in range(1, len(IDR) + 4):
        with pytest.raises(CodecError):
            is_picture(whole[:-missing], 4)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("avc1.4D401F", "avc1.64001F", "avc1.64001F"),
        ("avc1.64001F", "avc1.4D4028", "avc1.640028"),
        ("avc1.42C01E", "avc1.42401F", "avc1.42401F"),
        ("avc1.42C01E", "avc1.4D001E", "avc1.4D001E"),
        ("avc1.64001f", "avc1.64001F", "avc1.64001F"),
        ("avc1.58001F", "avc1.64001F", "avc1.64001F"),
        ("avc1.64001F", "avc1.58001F", "avc1.58001F"),
        ("hvc1.1.6.L93.B0", "avc1.42C01E", "avc1.42C01E"),
        ("avc1.64001F", "mp4a.40.2", "mp4a.40.2"),
    ],
)
def test_codecs_of_a_decoder_for_two_kinds_of_media(one: str, other: str, expected: str) -> None:
    assert covering_codecs(one, other) == expected
