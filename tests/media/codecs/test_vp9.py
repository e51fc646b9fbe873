"""VP9's uncompressed headers, as libvpx writes them and by the specification's bits."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.codecs.bits import CodecError
from media.codecs.vp9 import is_keyframe, keyframe_size

KEYFRAME = bytes.fromhex("824983420009f005960238241c18420006307fd5")  # 160 x 90


def frame(
    width: int,
    height: int,
    *,
    profile: int = 0,
    existing: int = 0,
    inter: int = 0,
    space: int = 1,
    sync: int = 0x498342,
) -> bytes:
    text = f"10{profile & 1}{profile >> 1}" + ("0" if profile == 3 else "") + f"{existing}{inter}10"
    text += f"{sync:024b}" + ("0" if profile >= 2 else "") + f"{space:03b}"
    if space == 7:
        text += "0" if profile & 1 else ""
    else:
        text += "0" + ("110" if profile & 1 else "")
    text += f"{width - 1:016b}{height - 1:016b}"
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param(KEYFRAME, (160, 90), id="libvpx"),
        pytest.param(frame(1920, 1080), (1920, 1080), id="profile 0"),
        pytest.param(frame(1920, 1080, profile=1), (1920, 1080), id="profile 1"),
        pytest.param(frame(1920, 1080, profile=2), (1920, 1080), id="profile 2"),
        pytest.param(frame(1920, 1080, profile=3), (1920, 1080), id="profile 3"),
        pytest.param(frame(320, 240, profile=1, space=7), (320, 240), id="RGB"),
        pytest.param(frame(16_384, 1), (16_384, 1), id="the widest"),
    ],
)
def test_a_keyframes_size_is_read(data: bytes, size: tuple[int, int]) -> None:
    assert is_keyframe(data)
    assert keyframe_size(data) == size


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(frame(160, 90, inter=1), id="inter frame"),
        pytest.param(frame(160, 90, inter=1, profile=3), id="inter frame of profile 3"),
        pytest.param(frame(160, 90, existing=1), id="an existing frame shown again"),
        pytest.param(b"\x42" + KEYFRAME[1:], id="another marker"),
    ],
)
def test_frames_other_than_keyframes_are_recognized(data: bytes) -> None:
    assert not is_keyframe(data)
    with pytest.raises(CodecError):
        keyframe_size(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(KEYFRAME[:7], id="cut off"),
        pytest.param(frame(160, 90, sync=0x498343), id="another sync code"),
        pytest.param(frame(16_385, 90), id="too wide"),
    ],
)
def test_a_broken_keyframe_is_an_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        keyframe_size(data)


@given(st.binary(max_size=20).map(lambda data: KEYFRAME[:4] + data) | st.binary(max_size=20))
def test_any_bytes_give_a_size_or_an_error(data: bytes) -> None:
    is_keyframe(data)
    with contextlib.suppress(CodecError):
        assert max(keyframe_size(data)) <= 16_384
