"""Odd sources, all produced and sent by foreign software.

A table: what is odd, how the file is made, who sends it, how often viewers may meet a
discontinuity. Pictures are small, so that many can be served at once, with one encoded rung below
them.
"""

import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import imageio_ffmpeg
import msgspec

from tests.support.e2e import flv_tags
from tests.support.e2e.clock_video import TWO_RUNGS
from tests.support.e2e.publishers import publishing, tool
from tests.support.e2e.service import SCALE
from tests.support.made_media import make_file

# All that is odd comes in the first 12 s. The rest is there for pages to begin in, on any machine.
_ODD_SECONDS: Final = 12
_SECONDS: Final = 40
_X264: Final = (
    "-c:v libx264 -preset ultrafast -tune zerolatency -pix_fmt yuv420p -b:v 1M -maxrate 1M "
    "-bufsize 1M -g 600"
)
_AAC: Final = "-c:a aac -b:a 96k -ar 48000 -ac 2"
_TONE: Final = "sine=frequency=440:beep_factor=4:sample_rate=48000"

Make = Callable[[Path], Path]


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One odd source.

    `by` is the sending software, as the documentation names it; `sending` runs it for the length of
    a block. `marks` is the maximum number of discontinuities of a rendition. `picture` and `sound`
    say whether the source has them. After `odd_seconds`, all that is odd has been sent.
    """

    name: str
    make: Make
    by: str = "ffmpeg"
    options: tuple[str, ...] = ()
    marks: int = 0
    picture: bool = True
    sound: bool = True
    odd_seconds: float = _ODD_SECONDS

    @contextmanager
    def sending(self, file: Path, url: str) -> Generator[subprocess.Popen[bytes]]:
        """Send the file in real time; the sender says goodbye at the end of the block."""
        if self.by == "GStreamer":
            with flv_tags.sending(flv_tags.read(file), url) as process:
                yield process
            return
        program = tool("ffmpeg") if self.by == "ffmpeg" else imageio_ffmpeg.get_ffmpeg_exe()
        command = [program, "-v", "error", "-re", "-i", str(file), "-c", "copy", *self.options]
        with publishing([*command, "-f", "flv", url]) as process:
            yield process


def _run(path: Path, *arguments: str, program: str | None = None) -> Path:
    command = [program or tool("ffmpeg"), "-nostdin", "-v", "error", "-y", *arguments]
    make_file(command, path, seconds=180 * SCALE)
    return path


def _every(seconds: float) -> str:
    return f"-force_key_frames expr:gte(t,n_forced*{seconds})"


def _clip(
    *,
    video: str = _X264,
    keys: str = _every(2),
    audio: str = _AAC,
    size: str = TWO_RUNGS,
    rate: str = "30",
    graph: str = "null",
    tone: str = _TONE,
    seconds: float = _SECONDS,
    suffix: str = "flv",
    modern: bool = False,
) -> Make:
    """Return a maker of a moving picture with a beeping tone; an empty option omits one."""

    def make(folder: Path) -> Path:
        inputs, outputs = list[str](), list[str]()
        if video:
            inputs += ["-f", "lavfi", "-i", f"testsrc2=s={size}:r={rate},{graph}"]
            outputs += [*video.split(), *keys.split()]
        if audio:
            inputs += ["-f", "lavfi", "-i", tone]
            outputs += audio.split()
        program = imageio_ffmpeg.get_ffmpeg_exe() if modern else None
        path = folder / f"made-{len(list(folder.iterdir()))}.{suffix}"
        return _run(path, *inputs, "-t", str(seconds), *outputs, program=program)

    return make


def _tagged(
    change: Callable[[list[flv_tags.Tag]], list[flv_tags.Tag]], **options: str | float
) -> Make:
    """Return a maker of a file with edited tags."""

    def make(folder: Path) -> Path:
        tags = flv_tags.read(_clip(**options)(folder))  # pyright: ignore[reportArgumentType]  # the table's
        return _written(folder, change(tags))

    return make


def _both(first: Make, second: Make, *, gap: int = 33, by: int | None = None) -> Make:
    """Return a maker that joins two files; with `by`, the second is shifted instead."""

    def make(folder: Path) -> Path:
        first_tags, second_tags = flv_tags.read(first(folder)), flv_tags.read(second(folder))
        if by is not None:
            return _written(folder, first_tags + flv_tags.shifted(second_tags, by))
        return _written(folder, flv_tags.joined(first_tags, second_tags, gap=gap))

    return make


def _written(folder: Path, tags: list[flv_tags.Tag]) -> Path:
    path = folder / f"tags-{len(list(folder.iterdir()))}.flv"
    path.write_bytes(flv_tags.HEADER + b"".join(tag.written() for tag in tags))
    return path


def _without(kind: int, start: int, end: int) -> Callable[[list[flv_tags.Tag]], list[flv_tags.Tag]]:
    """Return an edit that drops a kind's media (not its configuration) in a range of ms."""
    return lambda tags: [
        tag
        for tag in tags
        if tag.kind != kind or tag.is_configuration or not start <= tag.time < end
    ]


def _late(kind: int, start: int) -> Callable[[list[flv_tags.Tag]], list[flv_tags.Tag]]:
    """Return an edit that delays the start of a kind, with its configuration, to `start` ms."""

    def change(tags: list[flv_tags.Tag]) -> list[flv_tags.Tag]:
        first = [tag for tag in tags if tag.kind == kind and tag.is_configuration]
        others = [tag for tag in tags if tag.kind != kind or not tag.is_configuration]
        before = [tag for tag in others if tag.time < start and tag.kind != kind]
        after = [tag for tag in others if tag.time >= start]
        return before + flv_tags.shifted(first, start) + after

    return change


def _repeated(tags: list[flv_tags.Tag]) -> list[flv_tags.Tag]:
    """Repeat the configurations before every keyframe."""
    configurations = [tag for tag in tags if tag.is_configuration]
    repeated = list[flv_tags.Tag]()
    for tag in tags:
        if tag.kind == flv_tags.VIDEO and tag.body[0] >> 4 == 1 and not tag.is_configuration:
            repeated += [
                flv_tags.Tag(configuration.kind, tag.time, configuration.body)
                for configuration in configurations
            ]
        repeated.append(tag)
    return repeated


def _no_keyframe_first(tags: list[flv_tags.Tag]) -> list[flv_tags.Tag]:
    """Start in the middle of a GOP."""
    return [tag for tag in tags if tag.is_configuration or tag.time >= 700]


_ROTATED: Final = (
    " -x264-params sliced-threads=0 -bsf:v h264_metadata=display_orientation=insert:rotate=90"
)
_WITH_B: Final = _X264.replace("-tune zerolatency ", "")
_OPEN: Final = "-g 60 -bf 2 -x264-params open-gop=1:scenecut=0"
_ENDLESS: Final = "-g 100000 -x264-params keyint=infinite:scenecut=0"
_HEVC: Final = "-c:v libx265 -preset ultrafast -b:v 1M -x265-params log-level=error"
_HDR: Final = (
    f"{_HEVC}:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc -pix_fmt yuv420p10le "
    "-color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc"
)
_AV1: Final = "-c:v libsvtav1 -preset 11 -b:v 1M -pix_fmt yuv420p -g 60"
_VP9: Final = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 1M -pix_fmt yuv420p -g 60"
# What comes before a change in mid-stream.
_half = _ODD_SECONDS / 2
_plain = _clip(seconds=_half)
_smaller = _clip(size="640x360", seconds=_half)

_VIDEO: Final = (
    Input(name="24 frames a second", make=_clip(rate="24")),
    Input(name="25 frames a second", make=_clip(rate="25")),
    Input(name="29.97 frames a second", make=_clip(rate="30000/1001")),
    Input(name="50 frames a second", make=_clip(rate="50")),
    Input(name="60 frames a second", make=_clip(rate="60")),
    Input(name="1 frame a second", make=_clip(rate="1", keys=_every(3)), marks=1),
    Input(
        name="variable frame rate",
        make=_clip(
            rate="60", graph="select='gt(random(1),0.6)',settb=1/1000", video=_X264 + " -vsync 0"
        ),
    ),
    Input(name="portrait", make=_clip(size="480x854")),
    Input(
        name="rotated by 90°",
        make=_clip(video=_X264 + _ROTATED),
    ),
    Input(
        name="odd size, 4:4:4",
        make=_clip(size="607x341", video=_X264.replace("yuv420p", "yuv444p")),
    ),
    Input(name="4:2:2, 10 bits", make=_clip(video=_X264.replace("yuv420p", "yuv422p10le"))),
    Input(
        name="interlaced",
        make=_clip(
            graph="tinterlace=interleave_top,fieldorder=tff",
            rate="50",
            video=_X264 + " -flags +ilme+ildct",
        ),
    ),
    Input(name="full range", make=_clip(video=_X264.replace("yuv420p", "yuvj420p"))),
    Input(
        name="B-frames in a pyramid",
        make=_clip(
            video=_X264.replace("-tune zerolatency", "")
            + " -bf 3 -x264-params b-pyramid=normal:b-adapt=0"
        ),
    ),
    Input(
        name="open GOPs",
        make=_clip(
            video=_X264.replace("-tune zerolatency -pix_fmt", "-pix_fmt").replace(
                "-g 600", "-g 60 -bf 2 -x264-params open-gop=1:scenecut=0"
            ),
            keys="",
        ),
        marks=1,
    ),
    Input(name="a keyframe each frame", make=_clip(video=_X264.replace("-g 600", "-g 1"), keys="")),
    Input(name="a keyframe each second", make=_clip(keys=_every(1))),
    Input(name="a keyframe each 3.3 s", make=_clip(keys=_every(3.3))),
    Input(name="a keyframe each 8 s", make=_clip(keys=_every(8)), marks=1, odd_seconds=20),
    Input(
        name="one keyframe only",
        make=_clip(
            keys="",
            video=_X264.replace("-g 600", _ENDLESS),
        ),
        marks=1,
    ),
    Input(name="begins within a GOP", make=_tagged(_no_keyframe_first), by="GStreamer"),
    Input(name="configurations said again", make=_tagged(_repeated), by="GStreamer"),
    Input(
        name="another size in mid-stream",
        make=_both(_plain, _clip(size="640x360")),
        by="GStreamer",
        marks=1,
    ),
    Input(
        name="back to the first size",
        make=_both(_both(_smaller, _plain), _clip(size="640x360")),
        odd_seconds=18,
        by="GStreamer",
        marks=2,
    ),
    Input(
        name="another profile in mid-stream",
        make=_both(_plain, _clip(video=_X264 + " -profile:v baseline -level 4.2")),
        by="GStreamer",
        marks=1,
    ),
    Input(
        name="another bit rate in mid-stream",
        make=_both(_plain, _clip(video=_X264.replace("1M", "300k"))),
        by="GStreamer",
        marks=1,
    ),
    Input(
        name="a picture that stands still for 5 s",
        make=_tagged(_without(flv_tags.VIDEO, 4000, 9000)),
        by="GStreamer",
        marks=1,
    ),
)
_AUDIO: Final = (
    Input(name="no sound", make=_clip(audio=""), sound=False),
    Input(name="sound alone", make=_clip(video=""), picture=False),
    Input(
        name="sound that begins 4 s late",
        make=_tagged(_late(flv_tags.AUDIO, 4000)),
        by="GStreamer",
        marks=1,
    ),
    Input(
        name="sound that stops after 4 s",
        make=_tagged(_without(flv_tags.AUDIO, 4000, 1 << 30)),
        by="GStreamer",
    ),
    Input(
        name="a hole of 2 s in the sound",
        make=_tagged(_without(flv_tags.AUDIO, 4000, 6000)),
        by="GStreamer",
    ),
    Input(name="44.1 kHz mono", make=_clip(audio="-c:a aac -ar 44100 -ac 1")),
    Input(name="5.1", make=_clip(audio="-c:a aac -b:a 256k -ac 6")),
    Input(name="MP3", make=_clip(audio="-c:a libmp3lame -ar 44100 -ac 2")),
)
_TIME: Final = (
    Input(name="times past 24 bits", make=_clip(), options=("-output_ts_offset", "20000")),
    Input(
        name="times that wrap at 32 bits",
        make=_tagged(lambda made: flv_tags.shifted(made, (1 << 32) - 5000)),
        by="GStreamer",
    ),
    Input(
        name="times that jump by an hour",
        make=_both(_plain, _clip(), gap=3_600_000),
        by="GStreamer",
        marks=1,
    ),
    Input(
        name="times that begin again", make=_both(_plain, _clip(), by=0), by="GStreamer", marks=1
    ),
    Input(
        name="times that step back by 10 s",
        make=_both(_clip(seconds=10), _clip(), by=0),
        odd_seconds=20,
        by="GStreamer",
        marks=1,
    ),
)
_ENHANCED: Final = (
    Input(
        name="HEVC",
        make=_clip(video=_HEVC + " -pix_fmt yuv420p", suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
    Input(
        name="HEVC, 10 bits, HDR (PQ)",
        make=_clip(video=_HDR, suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
    Input(
        name="AV1", make=_clip(video=_AV1, keys="", suffix="mp4", modern=True), by="modern ffmpeg"
    ),
    Input(
        name="VP9", make=_clip(video=_VP9, keys="", suffix="mp4", modern=True), by="modern ffmpeg"
    ),
    Input(
        name="Opus",
        make=_clip(audio="-c:a libopus -b:a 96k", suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
    Input(
        name="FLAC",
        make=_clip(audio="-c:a flac -ar 48000", suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
    Input(
        name="AC-3",
        make=_clip(audio="-c:a ac3 -ac 6 -b:a 384k", suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
    Input(
        name="E-AC-3",
        make=_clip(audio="-c:a eac3 -ac 6 -b:a 384k", suffix="mp4", modern=True),
        by="modern ffmpeg",
    ),
)
INPUTS: Final = (*_VIDEO, *_AUDIO, *_TIME, *_ENHANCED)
