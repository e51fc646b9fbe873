"""Init sections and fragments are parsed, and any bytes are either media or an error."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.fmp4 import Sample, audio_init, fragment, video_init
from tests.support.hls.mp4_boxes import BoxError, Fragment, Init, read_fragments, read_init

AVC: Final = bytes.fromhex("0164001fffe100046764001f01000468ee3c80")
PICTURE: Final = video_init(config=AVC, width=64, height=36)
SOUND: Final = audio_init(config=bytes.fromhex("1190"), rate=48_000, channels=2)


def sample(dts: int, *, offset: int = 0, key: bool = False, size: int = 3) -> Sample:
    return Sample(dts=dts, pts=dts + offset, duration=100, key=key, data=bytes(size))


# Presentation order differs from decode order.
PICTURES: Final = fragment(
    [sample(500, offset=200, key=True), sample(600, offset=300), sample(700, offset=100)], number=1
)
BLOCKS: Final = fragment([sample(0, key=True), sample(100, key=True)], number=1)


def test_an_init_section_has_codec_scale_and_size() -> None:
    assert read_init(PICTURE) == Init(
        codec="avc1.64001f", scale=90_000, is_video=True, size=(64, 36), defaults=(0, 0, 0)
    )
    sound = read_init(SOUND)
    assert (sound.codec, sound.scale, sound.is_video) == ("mp4a.40.2", 48_000, False)


def test_a_fragment_has_its_times_and_where_decoding_can_begin() -> None:
    (parsed,) = read_fragments(PICTURES, read_init(PICTURE))
    assert parsed == Fragment(
        start=500, duration=300, shown=700, shown_end=1000, last=100, samples=3,
        begins_with_sync=True,
    )  # fmt: skip
    assert parsed.end == 800
    later = fragment([sample(800)], number=2)
    both = read_fragments(PICTURES + later, read_init(PICTURE))
    assert [each.begins_with_sync for each in both] == [True, False]


def test_samples_that_are_alike_are_described_by_defaults() -> None:
    (fragment,) = read_fragments(BLOCKS, read_init(SOUND))
    assert (fragment.start, fragment.duration, fragment.samples, fragment.begins_with_sync) == (
        0,
        200,
        2,
        True,
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no moof with its mdat"),
        (PICTURES[:-1], "a box b'mdat' of"),
        (PICTURES + b"abc", "3 bytes after the last box"),
        (PICTURES[PICTURES.index(b"mdat") - 4 :], "a box b'mdat' that is not due"),
        (PICTURES[: PICTURES.index(b"mdat") - 4], "no moof with its mdat"),
        (PICTURES.replace(b"tfdt", b"free"), "0 boxes tfdt"),
        (PICTURE, "a box b'ftyp' that is not due"),
        (PICTURES[:-9] + PICTURES[-8:], "a box b'mdat' of"),
    ],
)
def test_what_is_no_fragment_is_an_error(data: bytes, expected: str) -> None:
    with pytest.raises(BoxError, match=expected.replace("(", r"\(")):
        read_fragments(data, read_init(PICTURE))


@pytest.mark.parametrize("data", [b"", b"abc", PICTURES, PICTURE.replace(b"mdhd", b"free")])
def test_what_is_no_init_section_is_an_error(data: bytes) -> None:
    with pytest.raises(BoxError):
        read_init(data)


@given(st.integers(0, len(PICTURE + PICTURES) - 1), st.integers(0, 255))
def test_any_byte_may_be_another(offset: int, value: int) -> None:
    data = bytearray(PICTURE + PICTURES)
    data[offset] = value
    try:
        init = read_init(bytes(data[: len(PICTURE)]))
        read_fragments(bytes(data[len(PICTURE) :]), init)
    except BoxError:
        pass
