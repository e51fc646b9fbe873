"""AudioSpecificConfigs by hand, as FFmpeg writes them, and as anything at all."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.aac import AudioSpecificConfig, build
from media.codecs.bits import CodecError
from media.hls.fmp4 import Sample

Encode = Callable[..., tuple[bytes, list[Sample]]]


def bits(*fields: tuple[int, int]) -> bytes:
    """Put (width, number) fields together, zeros at the end."""
    text = "".join(f"{number:0{width}b}" for width, number in fields)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def parse(*fields: tuple[int, int]) -> AudioSpecificConfig:
    return AudioSpecificConfig.parse(bits(*fields))


LC, SBR, PS = (5, 2), (5, 5), (5, 29)
RATE_48, RATE_44, RATE_24, RATE_22 = (4, 3), (4, 4), (4, 6), (4, 7)
MONO, STEREO, PROGRAM = (4, 1), (4, 2), (4, 0)
PLAIN = (3, 0)  # 1024 samples, no core coder, no extension


@pytest.mark.parametrize(
    ("data", "rate", "channels"),
    [
        pytest.param("1190", 48_000, 2, id="48 kHz stereo"),
        pytest.param("1210", 44_100, 2, id="44.1 kHz stereo"),
        pytest.param("1188", 48_000, 1, id="48 kHz mono"),
        pytest.param("121056e500", 44_100, 2, id="as FFmpeg writes it, SBR denied"),
        pytest.param("11b0", 48_000, 6, id="5.1"),
        pytest.param("11b8", 48_000, 8, id="7.1"),
    ],
)
def test_what_encoders_send_is_read(data: str, rate: int, channels: int) -> None:
    config = AudioSpecificConfig.parse(bytes.fromhex(data))
    assert (config.rate, config.channels, config.codecs) == (rate, channels, "mp4a.40.2")
    assert (config.core_rate, config.frame_length) == (rate, 1024)
    assert not (config.sbr or config.ps or config.program)


@pytest.mark.parametrize(("layout", "channels"), [("mono", 1), ("stereo", 2), ("5.1", 6)])
@pytest.mark.parametrize("rate", [22_050, 44_100, 48_000, 96_000])
def test_what_ffmpeg_encodes_is_read(audio: Encode, layout: str, channels: int, rate: int) -> None:
    data, _ = audio(rate, layout)
    config = AudioSpecificConfig.parse(data)
    assert (config.rate, config.object_type) == (rate, 2)
    assert config.channels == channels


def test_explicitly_signalled_sbr_doubles_the_rate() -> None:
    config = parse(SBR, RATE_24, STEREO, RATE_48, LC, PLAIN)
    assert (config.rate, config.core_rate, config.channels) == (48_000, 24_000, 2)
    assert (config.sbr, config.ps, config.codecs) == (True, False, "mp4a.40.5")


def test_ps_makes_stereo_of_mono() -> None:
    config = parse(PS, RATE_22, MONO, RATE_44, LC, PLAIN)
    assert (config.rate, config.channels, config.codecs) == (44_100, 2, "mp4a.40.29")
    assert config.sbr


@pytest.mark.parametrize(
    ("tail", "rate", "channels", "codecs"),
    [
        pytest.param([(1, 1), RATE_48], 48_000, 1, "mp4a.40.5", id="SBR"),
        pytest.param([(1, 1), RATE_48, (11, 0x548), (1, 1)], 48_000, 2, "mp4a.40.29", id="PS too"),
        pytest.param([(1, 1), RATE_48, (11, 0x548), (1, 0)], 48_000, 1, "mp4a.40.5", id="PS no"),
        pytest.param([(1, 0)], 24_000, 1, "mp4a.40.2", id="SBR denied"),
    ],
)
def test_the_signalling_at_the_end_is_read(
    tail: list[tuple[int, int]], rate: int, channels: int, codecs: str
) -> None:
    config = parse(LC, RATE_24, MONO, PLAIN, (11, 0x2B7), (5, 5), *tail)
    assert (config.rate, config.channels, config.codecs) == (rate, channels, codecs)
    assert config.core_rate == 24_000


def test_a_rate_may_be_spelled_out() -> None:
    assert parse(LC, (4, 15), (24, 47_000), STEREO, PLAIN).rate == 47_000


def test_object_types_above_30_are_read() -> None:
    config = parse((5, 31), (6, 10), RATE_48, STEREO)
    assert (config.object_type, config.codecs) == (42, "mp4a.40.42")


def test_frames_of_960_are_read() -> None:
    assert parse(LC, RATE_48, STEREO, (1, 1), (2, 0)).frame_length == 960


def test_a_core_coder_and_its_delay_are_read_past() -> None:
    config = parse(LC, RATE_24, STEREO, (1, 0), (1, 1), (14, 100), (1, 0), (11, 0x2B7), (5, 5),
                   (1, 1), RATE_48)  # fmt: skip
    assert config.rate == 48_000


def test_a_program_config_element_counts_its_channels() -> None:
    config = parse(
        LC, RATE_48, PROGRAM, PLAIN,
        (4, 0), (2, 1), RATE_48, (4, 2), (4, 0), (4, 1), (2, 1), (3, 0), (4, 0),
        (1, 1), (4, 0), (1, 0), (1, 0),
        (1, 0), (4, 0), (1, 1), (4, 0), (1, 1), (4, 1), (4, 0), (16, 0),
    )  # fmt: skip
    # Front: one and a pair; back: a pair; one low.
    assert (config.channels, config.program) == (6, True)


def test_a_program_config_element_that_is_cut_off_is_refused() -> None:
    with pytest.raises(CodecError):
        parse(LC, RATE_48, PROGRAM, PLAIN, (4, 0), (2, 1), RATE_48, (4, 15))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([(5, 0), RATE_48, STEREO, PLAIN], id="object type 0"),
        pytest.param([LC, (4, 13), STEREO, PLAIN], id="rate 13"),
        pytest.param([LC, (4, 14), STEREO, PLAIN], id="rate 14"),
        pytest.param([LC, (4, 15), (24, 0), STEREO, PLAIN], id="0 Hz"),
        pytest.param([LC, (4, 15), (24, 192_001), STEREO, PLAIN], id="above 192 kHz"),
        pytest.param([LC, RATE_48, (4, 8), PLAIN], id="channels 8"),
        pytest.param([LC, RATE_48, (4, 15), PLAIN], id="channels 15"),
    ],
)
def test_reserved_values_are_refused(fields: list[tuple[int, int]]) -> None:
    with pytest.raises(CodecError):
        parse(*fields)


@pytest.mark.parametrize("length", [0, 1])
def test_a_config_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(CodecError):
        AudioSpecificConfig.parse(build(48_000, 2)[:length])


@given(st.integers(1, 192_000) | st.sampled_from([48_000, 44_100]), st.sampled_from([1, 2, 6, 8]))
def test_what_is_built_is_read_back(rate: int, channels: int) -> None:
    config = AudioSpecificConfig.parse(build(rate, channels))
    assert (config.rate, config.channels, config.codecs) == (rate, channels, "mp4a.40.2")


def test_ordinary_sound_takes_two_bytes() -> None:
    assert build(48_000, 2) == b"\x11\x90"


@pytest.mark.parametrize(("rate", "channels"), [(0, 2), (192_001, 2), (48_000, 0), (48_000, 9)])
def test_a_config_that_cannot_be_expressed_is_refused(rate: int, channels: int) -> None:
    with pytest.raises(CodecError):
        build(rate, channels)


@given(st.binary(max_size=64))
def test_any_bytes_give_a_config_or_the_error(data: bytes) -> None:
    try:
        config = AudioSpecificConfig.parse(data)
    except CodecError:
        return
    assert 0 < config.rate <= 192_000
    assert 0 <= config.channels <= 3 + 2 * 3 * 15
    assert config.channels or config.program
