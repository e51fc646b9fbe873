"""Parameter sets before keyframes: there once, in order, and no others than those in force."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.avc import AvcConfig, nal_units
from media.codecs.parameter_sets import ParameterSets
from tests.media.conftest import Encode

RECORD = bytes.fromhex(
    "0164001effe100196764001eacd940a02ff9610000030001000003003c0f162d9601000468ef8fcbfdf8f800"
)
CONFIG = AvcConfig.parse(RECORD)
(SPS,), (PPS,) = CONFIG.sps, CONFIG.pps
OTHER_SPS = SPS[:-1] + b"\x97"  # with the same identifier
OTHER_PPS = b"\x68\xee\x8f\xcb"
SECOND_PPS = b"\x68\x5b\x8f\xcb"  # with the identifier 1
DELIMITER, MESSAGE, IDR = b"\x09\x10", b"\x06\x05\x01\x00\x80", b"\x65\x88\x84"


def unit(*units: bytes, length_size: int = 4) -> bytes:
    return b"".join(len(each).to_bytes(length_size, "big") + each for each in units)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((IDR,), (SPS, PPS, IDR), id="none"),
        pytest.param((MESSAGE, IDR, IDR), (SPS, PPS, MESSAGE, IDR, IDR), id="before messages"),
        pytest.param((DELIMITER, IDR), (DELIMITER, SPS, PPS, IDR), id="behind the delimiter"),
        pytest.param((SPS, PPS, IDR), (SPS, PPS, IDR), id="there already"),
        pytest.param((DELIMITER, MESSAGE, SPS, PPS, IDR), (DELIMITER, MESSAGE, SPS, PPS, IDR),
            id="there already, in an order of its own"),
        pytest.param((SPS, IDR), (SPS, PPS, IDR), id="one of them"),
        pytest.param((DELIMITER, PPS, IDR), (DELIMITER, SPS, PPS, IDR), id="the other"),
        pytest.param((OTHER_SPS, IDR), (OTHER_SPS, PPS, IDR), id="another instead"),
        pytest.param((SPS, SECOND_PPS, IDR), (SPS, PPS, SECOND_PPS, IDR), id="one more"),
    ],
)  # fmt: skip
def test_a_keyframe_has_each_set_once(before: tuple[bytes, ...], after: tuple[bytes, ...]) -> None:
    assert ParameterSets(CONFIG).complete(unit(*before)) == unit(*after)


def test_sets_in_band_are_in_force_until_they_are_replaced() -> None:
    of = ParameterSets(CONFIG)
    assert of.complete(unit(IDR)) == unit(SPS, PPS, IDR)
    of.complete(unit(OTHER_SPS, OTHER_PPS, IDR))
    assert of.complete(unit(IDR)) == unit(OTHER_SPS, OTHER_PPS, IDR)
    of.complete(unit(SPS, SECOND_PPS, IDR))
    assert of.complete(unit(IDR)) == unit(SPS, OTHER_PPS, SECOND_PPS, IDR)


@pytest.mark.parametrize("length_size", [1, 2, 4])
def test_lengths_have_the_size_that_the_record_declares(length_size: int) -> None:
    config = msgspec.structs.replace(CONFIG, length_size=length_size)
    made = ParameterSets(config).complete(unit(IDR, length_size=length_size))
    assert made == unit(SPS, PPS, IDR, length_size=length_size)


@pytest.mark.parametrize(("length_size", "most"), [(1, 255), (2, 4_096), (4, 4_096)])
def test_sets_that_are_too_large_are_left_out(length_size: int, most: int) -> None:
    keyframe = unit(IDR, length_size=length_size)
    for size, fits in ((most, True), (most + 1, False)):
        large = PPS + bytes(size - len(PPS) - len(SPS))
        config = msgspec.structs.replace(CONFIG, length_size=length_size, pps=(large,))
        assert (ParameterSets(config).complete(keyframe) != keyframe) == fits


def test_large_sets_in_band_are_not_kept() -> None:
    of = ParameterSets(CONFIG)
    large = unit(SPS, SECOND_PPS + bytes(5_000), IDR)
    assert of.complete(large) == large
    assert of.complete(unit(IDR)) == unit(SPS, PPS, IDR)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(unit(IDR)[:-1], id="cut off"),
        pytest.param(unit(b"\x67\x64", IDR), id="a set without an identifier"),
    ],
)
def test_what_cannot_be_parsed_stays_as_it_is(data: bytes) -> None:
    of = ParameterSets(CONFIG)
    assert of.complete(data) == data
    assert of.complete(unit(IDR)) == unit(SPS, PPS, IDR)


def test_a_record_whose_sets_have_no_identifiers_adds_nothing() -> None:
    config = msgspec.structs.replace(CONFIG, pps=(b"\x68",))
    assert ParameterSets(config).complete(unit(IDR)) == unit(IDR)


def test_a_real_keyframe_keeps_everything_else(video: Encode) -> None:
    record, samples = video()
    config = AvcConfig.parse(record)
    made = ParameterSets(config).complete(samples[0].data)
    units = nal_units(made, config.length_size)
    assert units[:2] == [*config.sps, *config.pps]
    assert units[2:] == nal_units(samples[0].data, config.length_size)
    assert ParameterSets(config).complete(made) == made


@given(st.lists(st.binary(max_size=80), max_size=8), st.binary(max_size=40))
def test_any_bytes_give_bytes_of_a_bounded_size(units: list[bytes], rest: bytes) -> None:
    of = ParameterSets(CONFIG)
    for data in (unit(*units), unit(*units) + rest, unit(IDR)):
        made = of.complete(data)
        assert len(made) <= len(data) + 4_096 + 4 * (32 + 256)
        assert of.complete(made) == made
