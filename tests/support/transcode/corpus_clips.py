"""Makes the files of the corpus with Debian's ffmpeg: a flash and a beep 0.4 s into each second.

The picture is dark except for a grey box in its upper left corner, which shows the orientation.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.engine.sources import ffmpeg

Maker = Callable[[Path], None]
"""Makes the file at a path, whose ending says the format."""

AAC: Final = ("-c:a", "aac")
X264: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-profile:v", "high", "-g", "50",
               "-sc_threshold", "0")  # fmt: skip
_WHEN: Final = "gte(t,0.4)*lt(mod(t-0.4,1),0.1)"
_BEEPS: Final = f"0.8*sin(2*PI*1000*t)*{_WHEN}"


def _picture(seconds: float, size: tuple[int, int], rate: str) -> str:
    wide, high = (side // 2 * 2 + 2 for side in size)  # the filter generates even sizes only
    return (
        f"color=black:s={wide}x{high}:r={rate}:d={seconds},"
        "drawbox=w=iw/4:h=ih/4:c=0x808080:t=fill,"
        f"drawbox=c=white:t=fill:enable='{_WHEN}'"
    )


def _beeps(seconds: float, layout: str, rate: int) -> str:
    return f"aevalsrc='{_BEEPS}':s={rate}:d={seconds},aformat=channel_layouts={layout}"


def clip(
    *coding: str,
    seconds: float = 3,
    heard: float | None = None,
    size: tuple[int, int] = (320, 180),
    rate: str = "25",
    form: str = "yuv420p",
    sound: str | None = "stereo",
    sound_rate: int = 44_100,
    filters: str = "",
    aspect: str = "1",
) -> Maker:
    """Return a maker of a film. `sound` is the channel layout (None: no sound) of `heard` seconds.

    `filters` are applied to the picture last; `aspect` is the pixel aspect ratio.
    """

    def make(path: Path) -> None:
        shape = f"scale={size[0]}:{size[1]},setsar={aspect},format={form}"
        picture = f"{_picture(seconds, size, rate)},{shape}{',' if filters else ''}{filters}"
        beeps = _beeps(seconds if heard is None else heard, sound or "", sound_rate)
        audio = ("-f", "lavfi", "-i", beeps) if sound else ()
        ffmpeg(
            *("-f", "lavfi", "-i", picture, *audio, "-threads", "1"),
            *(*coding, "-pix_fmt", form, "-y", path),
        )

    return make


def alone(*coding: str, seconds: float = 3, layout: str = "stereo", rate: int = 44_100) -> Maker:
    """Return a maker of sound without a picture."""

    def make(path: Path) -> None:
        ffmpeg("-f", "lavfi", "-i", _beeps(seconds, layout, rate), *coding, "-y", path)

    return make


def blank(path: Path) -> None:
    """Make an MP4 whose tracks have no samples."""
    clip(*X264, *AAC)(path.with_name("whole.mp4"))
    ffmpeg("-i", path.with_name("whole.mp4"), "-t", "0", "-c", "copy", "-y", path)


def remuxed(source: Maker, ending: str, *options: str, first: tuple[str, ...] = ()) -> Maker:
    """Return a maker that remuxes a file; `first` are options of the input."""

    def make(path: Path) -> None:
        whole = path.with_name(f"whole.{ending}")
        source(whole)
        ffmpeg(*first, "-i", whole, "-map", "0", "-c", "copy", *options, "-y", path)

    return make


def turned(degrees: int) -> Maker:
    """Return a maker of a rotated film, with a display matrix that turns it upright."""
    back = {90: "transpose=cclock", 180: "hflip,vflip", 270: "transpose=clock"}[degrees]
    size = (320, 180) if degrees == 180 else (180, 320)
    lying = clip(*X264, *AAC, size=size, filters=back)
    return remuxed(lying, "mp4", "-metadata:s:v", f"rotate={360 - degrees}")


def trimmed(path: Path) -> None:
    """Make an MP4 whose edit list omits its first 0.7 s, as trimming on a phone does."""
    clip(*X264, "-bf", "2", *AAC, seconds=4)(path.with_name("whole.mp4"))
    ffmpeg("-ss", "0.7", "-i", path.with_name("whole.mp4"), "-c", "copy", "-y", path)


def cut_off(source: Maker, part: float) -> Maker:
    """Return a maker that truncates a file to a share of its bytes."""

    def make(path: Path) -> None:
        source(path)
        data = path.read_bytes()
        path.write_bytes(data[: round(len(data) * part)])

    return make


def damaged(source: Maker) -> Maker:
    """Return a maker that overwrites 300 bytes in the middle of a file."""

    def make(path: Path) -> None:
        source(path)
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 300] = random.Random(7).randbytes(300)  # no secret
        path.write_bytes(data)

    return make


def noisy(source: Maker, place: float) -> Maker:
    """Return a maker that overwrites 1 500 bytes of a file at `place`, from 0 to 1."""

    def make(path: Path) -> None:
        source(path)
        data = bytearray(path.read_bytes())
        at = round(len(data) * place)
        data[at : at + 1_500] = random.Random(at).randbytes(min(1_500, len(data) - at))  # no secret
        path.write_bytes(data)

    return make


def shortened(source: Maker) -> Maker:
    """Return a maker that cuts a fifth out of the middle of a file."""

    def make(path: Path) -> None:
        source(path)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * 2 // 5] + data[len(data) * 3 // 5 :])

    return make


def gapped(path: Path) -> None:
    """Make a film whose video and audio times jump by 100 s in the middle."""
    leap = "TS+if(gte(TS*TB,1.5),100/TB,0)"
    make = remuxed(clip(*X264, *AAC), "mkv", "-bsf:v", f"setts=ts='{leap}'",
                   "-bsf:a", f"setts=ts='{leap}'")  # fmt: skip
    make(path)


def covered(source: Maker, ending: str, *options: str) -> Maker:
    """Return a maker that adds cover art to a file."""

    def make(path: Path) -> None:
        whole, cover = path.with_name(f"whole.{ending}"), path.with_name("cover.jpg")
        source(whole)
        ffmpeg(
            *("-f", "lavfi", "-i", "color=red:s=600x600,format=yuvj420p", "-frames:v", "1"),
            *("-y", cover),
        )
        ffmpeg(
            *("-i", whole, "-i", cover, "-map", "0", "-map", "1", "-c", "copy", *options),
            *("-y", path),
        )

    return make


def two_sounds(path: Path) -> None:
    """Make an MKV whose first audio track is silent, and whose second, the default, beeps."""
    ffmpeg(
        *("-f", "lavfi", "-i", f"{_picture(3, (320, 180), '25')},scale=320:180,setsar=1"),
        *("-f", "lavfi", "-i", "anullsrc=d=3", "-f", "lavfi", "-i", _beeps(3, "stereo", 44_100)),
        *("-map", "0", "-map", "1", "-map", "2", *X264, *AAC, "-pix_fmt", "yuv420p", "-t", "3"),
        *("-disposition:a:0", "0", "-disposition:a:1", "default", "-y", path),
    )


def still(path: Path) -> None:
    """Make a film of one picture, with 5 s of sound."""
    ffmpeg(
        *("-f", "lavfi", "-i", "color=gray:s=320x180:r=25:d=0.04", "-f", "lavfi"),
        *("-i", _beeps(5, "stereo", 44_100), *X264, *AAC),
        *("-pix_fmt", "yuv420p", "-t", "5", "-y", path),
    )


def subtitled(path: Path) -> None:
    """Make an MKV with subtitles."""
    clip(*X264, *AAC)(path.with_name("whole.mkv"))
    lines = path.with_name("lines.srt")
    lines.write_text("1\n00:00:00,500 --> 00:00:01,500\nGood evening.\n")
    ffmpeg(
        *("-i", path.with_name("whole.mkv"), "-i", lines, "-map", "0", "-map", "1"),
        *("-c", "copy", "-c:s", "srt", "-y", path),
    )


def text(path: Path) -> None:
    """Write a text file."""
    path.write_text("This is no film.\n" * 100)


def nothing(path: Path) -> None:
    """Write an empty file."""
    path.write_bytes(b"")


def apart(picture: float, sound: float) -> Maker:
    """Return a maker of an MKV whose tracks begin at different times in seconds."""

    def make(path: Path) -> None:
        whole = path.with_name("whole.mkv")
        clip(*X264, *AAC)(whole)
        ffmpeg(
            *("-itsoffset", str(picture), "-i", whole, "-itsoffset", str(sound), "-i", whole),
            *("-map", "0:v", "-map", "1:a", "-c", "copy", "-copyts", "-y", path),
        )

    return make
