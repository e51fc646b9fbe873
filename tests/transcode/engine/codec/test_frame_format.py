"""Pictures of every make, from real encoders, come out upright, whole and in ordinary colours."""

import resource
import time
from fractions import Fraction
from pathlib import Path

import av
import pytest
from av.video.frame import VideoFrame

from tests.support.engine.sources import ffmpeg
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.scaler import Cascade

SQUARE = Fraction(1)
BT709 = (1, 1, 1)
# Four quarters: white above left, red above right, green below left, black below right.
QUARTERS = (
    "color=black:s=640x360:r=25:d=0.4,drawbox=c=white:t=fill:w=320:h=180,"
    "drawbox=c=red:t=fill:x=320:w=320:h=180,drawbox=c=0x00ff00:t=fill:y=180:w=320:h=180"
)


def encoded(folder: Path, *coding: str, source: str = QUARTERS) -> list[VideoFrame]:
    """Encode a lavfi source with Debian's ffmpeg; return what our decoder makes of it."""
    path = folder / "clip.mkv"
    ffmpeg("-f", "lavfi", "-i", source, *coding, "-y", path)
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    for number, frame in enumerate(frames):
        frame.pts, frame.time_base = number * 3_600, TIME_BASE
    return frames


def scaled(frames: list[VideoFrame], size: tuple[int, int] = (320, 180)) -> list[VideoFrame]:
    cascade = Cascade((size, (size[0] // 2, size[1] // 2)))
    largest: list[VideoFrame] = []
    for frame in frames:
        first, second = cascade.scale(frame, SQUARE)
        assert (first.pts, second.pts) == (frame.pts, frame.pts)
        assert (first.format.name, second.format.name) == ("yuv420p", "yuv420p")
        assert (second.width, second.height) == (size[0] // 2, size[1] // 2)
        largest.append(first)
    return largest


def luma(frame: VideoFrame, x: float, y: float) -> int:
    """The luma at a place, from 0 to 1 across and down."""
    plane = frame.planes[0]
    return bytes(plane)[int(y * frame.height) * plane.line_size + int(x * frame.width)]


def tags(frame: VideoFrame) -> tuple[int, int, int]:
    return int(frame.colorspace), int(frame.color_primaries), int(frame.color_trc)


def turned(how: str) -> tuple[str, ...]:
    orientation = f"h264_metadata=display_orientation=insert:{how}"
    return ("-c:v", "libx264", "-bf", "2", "-bsf:v", orientation)


@pytest.mark.parametrize(
    ("how", "white"),
    [
        pytest.param("rotate=90", (0.45, 0.75), id="a quarter turn against the clock"),
        pytest.param("rotate=270", (0.55, 0.25), id="a quarter turn with the clock"),
        pytest.param("rotate=180", (0.75, 0.75), id="half a turn"),
        pytest.param("flip=horizontal", (0.75, 0.25), id="a mirror"),
    ],
)
def test_a_turned_picture_is_shown_upright_in_all_frames(
    how: str, white: tuple[float, float], tmp_path: Path
) -> None:
    frames = encoded(tmp_path, *turned(how))
    assert [frame.rotation != 0 for frame in frames[:3]] == [True, False, False]
    for scaled_frame in scaled(frames):
        assert luma(scaled_frame, *white) > 220
        if "90" in how or "270" in how:  # bars beside a picture that is now upright
            assert luma(scaled_frame, 0.1, 0.5) == luma(scaled_frame, 0.9, 0.5) == 16


INTERLACED = (
    *("-vf", "tinterlace=interleave_top,fieldorder=tff", "-c:v", "libx264"),
    *("-flags", "+ildct+ilme", "-x264-params", "tff=1:force-cfr=1", "-qp", "4"),
)
# A white bar that goes 24 pixels to the right in each field.
BAR = (
    "color=black:s=640x360:r=50:d=0.8[b];color=white:s=80x360:r=50[w];"
    "[b][w]overlay=x=n*24-100:shortest=1"
)


def combs(frame: VideoFrame) -> int:
    """How many pixels differ from both neighbours above and below, which agree."""
    plane, width = bytes(frame.planes[0]), frame.planes[0].line_size
    count = 0
    for row in range(20, frame.height - 20, 8):
        for x in range(0, frame.width, 4):
            above, here, below = (plane[(row + each) * width + x] for each in (-1, 0, 1))
            count += abs(above - below) < 30 and abs(here - above) > 90
    return count


def test_interlaced_frames_lose_their_combs_one_for_one(tmp_path: Path) -> None:
    frames = encoded(tmp_path, *INTERLACED, source=BAR)
    assert all(frame.interlaced_frame for frame in frames)
    before = sum(combs(frame) for frame in frames[4:16])
    scaled_frames = scaled(frames, (640, 360))
    assert len(scaled_frames) == len(frames)
    assert before > 1_000
    assert sum(combs(frame) for frame in scaled_frames[4:16]) < before / 20


def test_frames_that_are_not_interlaced_stay_sharp(tmp_path: Path) -> None:
    stripes = "nullsrc=s=640x360:r=25:d=0.2,geq=lum='255*mod(Y,2)':cb=128:cr=128"
    frames = encoded(tmp_path, "-c:v", "libx264", "-qp", "0", source=stripes)
    shown_frame = scaled(frames, (640, 360))[2]
    assert abs(luma(shown_frame, 0.5, 100 / 360) - luma(shown_frame, 0.5, 101 / 360)) > 200


@pytest.mark.parametrize(
    ("form", "codec"),
    [
        ("yuv420p10le", "libx264"), ("yuv422p", "libx264"), ("yuv422p10le", "libx264"),
        ("yuv444p", "libx264"), ("yuvj420p", "libx264"), ("gray", "libx264"),
        ("yuv420p12le", "libx265"), ("gbrp", "libx265"), ("gbrp10le", "libx265"),
    ],
)  # fmt: skip
def test_every_depth_and_sampling_gives_the_same_picture(
    form: str, codec: str, tmp_path: Path
) -> None:
    frames = encoded(tmp_path, "-c:v", codec, "-pix_fmt", form)
    last_frame = scaled(frames)[-1]
    assert luma(last_frame, 0.25, 0.25) == pytest.approx(235, abs=3)
    assert luma(last_frame, 0.75, 0.75) == pytest.approx(16, abs=3)
    assert 40 < luma(last_frame, 0.75, 0.25) < 90
    assert luma(last_frame, 0.25, 0.75) > 120


@pytest.mark.parametrize("form", ["yuva420p", "pal8", "ya8", "bgra", "gbrap", "p010le", "yuv410p"])
def test_odd_forms_give_a_picture(form: str) -> None:
    frame = VideoFrame(640, 360, form)
    for plane in frame.planes:
        plane.update(bytes([200]) * plane.buffer_size)
    frame.pts, frame.time_base = 0, TIME_BASE
    (thumbnail,) = Cascade(((320, 180),)).scale(frame, SQUARE)
    assert 180 <= luma(thumbnail, 0.5, 0.5) <= 205


def hdr(transfer: str, code: float) -> tuple[tuple[str, ...], str]:
    """How to encode a grey of this code as 10-bit BT.2020, and its source."""
    options = f"log-level=none:colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc"
    level = round(64 + 876 * code)
    grey = f"geq=lum={level}:cb=512:cr=512"
    coding = ("-c:v", "libx265", "-pix_fmt", "yuv420p10le", "-x265-params", options)
    return coding, f"nullsrc=s=640x360:r=25:d=0.2,format=yuv420p10le,{grey}"


@pytest.mark.parametrize(
    ("transfer", "code", "least", "most"),
    [
        pytest.param("smpte2084", 0.3804, 104, 114, id="PQ: a grey card"),
        pytest.param("smpte2084", 0.5807, 204, 222, id="PQ: white"),
        pytest.param("smpte2084", 0.7518, 232, 236, id="PQ: 1000 cd/m2"),
        pytest.param("arib-std-b67", 0.38, 104, 114, id="HLG: a grey card"),
        pytest.param("arib-std-b67", 0.75, 204, 222, id="HLG: white"),
        pytest.param("arib-std-b67", 1.0, 232, 236, id="HLG: peak"),
        pytest.param("bt2020-10", 0.5, 123, 128, id="BT.2020 of ordinary brightness"),
    ],
)
def test_bright_and_wide_colours_land_on_an_ordinary_screen(
    transfer: str, code: float, least: int, most: int, tmp_path: Path
) -> None:
    coding, source = hdr(transfer, code)
    last_frame = scaled(encoded(tmp_path, *coding, source=source))[-1]
    assert least <= luma(last_frame, 0.5, 0.5) <= most
    assert tags(last_frame) == BT709
    assert [bytes(plane)[500] for plane in last_frame.planes[1:]] == pytest.approx(
        [128, 128], abs=2
    )


def test_a_red_of_bt2020_is_a_red_of_bt709(tmp_path: Path) -> None:
    coding, _ = hdr("smpte2084", 0.5)
    red = "color=c=red:s=640x360:r=25:d=0.2,format=gbrp,scale=out_color_matrix=bt2020:out_range=tv"
    last_frame = scaled(encoded(tmp_path, *coding, source=red))[-1]
    _, blue, far_red = (bytes(plane)[500] for plane in last_frame.planes)
    assert far_red > 200
    assert blue < 128


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        pytest.param("1280x720", (), BT709, id="untold HD is BT.709, and its small rungs say so"),
        pytest.param("640x360", (), (2, 2, 2), id="untold SD stays untold"),
        pytest.param(
            "1280x720",
            ("-colorspace", "smpte170m", "-color_primaries", "smpte170m", "-color_trc", "bt709"),
            (6, 6, 1),
            id="what is told stays",
        ),
    ],
)
def test_colours_are_declared(
    size: str, options: tuple[str, ...], expected: tuple[int, int, int], tmp_path: Path
) -> None:
    source = f"testsrc2=s={size}:r=25:d=0.2"
    frames = encoded(tmp_path, "-pix_fmt", "yuv420p", "-c:v", "libx264", *options, source=source)
    assert {tags(frame) for frame in scaled(frames)} == {expected}


def memory() -> int:
    """The memory that this process holds, in kilobytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def test_a_cascade_is_rebuilt_quickly_and_leaves_nothing_behind(tmp_path: Path) -> None:
    coding, source = hdr("smpte2084", 0.5)
    sizes = ((854, 480), (640, 360), (320, 180))
    (frame, *_) = encoded(tmp_path, *coding, source=source)
    durations: list[float] = []
    grown = 0
    for turn in range(60):
        if turn == 20:
            grown = memory()
        began = time.thread_time()
        cascade = Cascade(sizes[turn % 3 :])
        cascade.scale(frame, SQUARE)
        durations.append(time.thread_time() - began)
    # Its own CPU, with the colour table read and one frame scaled; 20 ms on an idle machine.
    assert min(durations) < 0.1
    assert memory() - grown < 20_000
