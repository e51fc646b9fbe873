"""Typical uploads, made by Debian's ffmpeg, and engines that read them."""

import io
from pathlib import Path

import msgspec

from media.ladder import ladder_for
from tests.support.engine.engine_forks import run_engine
from tests.support.engine.engine_process import LABELS, EngineOutput
from tests.support.engine.sources import ffmpeg
from transcode.protocol.file_messages import AssetOrder, SpanOrder
from transcode.protocol.messages import EngineReport, FileOrder, Poster, Probed, Refused, WireReader

# 0.4 s into each second, the picture is white and the sound loud for 0.1 s.
_WHEN = "gte(t,0.4)*lt(mod(t-0.4,1),0.1)"
FLASHES = 0.4
_SECONDS = 300  # far longer than any test takes, so that a hang does not block the tests


def film(
    path: Path,
    *coding: str,
    seconds: float = 3,
    size: tuple[int, int] = (320, 180),
    rate: float = 25,
    form: str = "yuv420p",
    sound: str | None = "mono",
    first: tuple[str, ...] = (),
) -> Path:
    """Make a file of flashes and beeps; its suffix is the format, `coding` are other options.

    `sound` is the channel layout, None for no sound; `first` are options of the first input.
    """
    # The filter generates even sizes only.
    shape = f"scale={size[0]}:{size[1]},setsar=1,format={form}"
    picture = (
        f"color=black:s={size[0] // 2 * 2 + 2}x{size[1] // 2 * 2 + 2}:r={rate}:d={seconds},"
        f"drawbox=c=white:t=fill:enable='{_WHEN}',{shape}"
    )
    beeps = f"aevalsrc='0.8*sin(2*PI*1000*t)*{_WHEN}':s=44100:d={seconds}"
    audio = ["-f", "lavfi", "-i", f"{beeps},aformat=channel_layouts={sound}"] if sound else []
    ffmpeg(
        *(*first, "-f", "lavfi", "-i", picture, *audio, "-t", str(seconds)),
        *("-threads", "1", *coding, "-pix_fmt", form, "-y", path),
    )
    return path


def make_for(probe: Probed, *, reuse: bool = True) -> FileOrder:
    """Return the standard order for a file."""
    ladder = ladder_for(probe.width, probe.height, LABELS) if probe.width else None
    upright = (probe.width, probe.height) == (probe.codec_width, probe.codec_height)
    return FileOrder(ladder=ladder, reuse=reuse and upright and not probe.rotation)


def read(
    kind: str, path: Path, make: FileOrder | AssetOrder | SpanOrder | None = None
) -> EngineOutput:
    """Run a new engine on a file."""
    order = [msgspec.json.encode(make).decode()] if make is not None else []
    with path.open("rb") as file:
        status, output, complaints = run_engine([kind, *order], file, seconds=_SECONDS)
    reports: WireReader[EngineReport] = WireReader(EngineReport)
    return EngineOutput(reports.feed(output), status, complaints.decode())


def probed(path: Path) -> Probed:
    """Return an engine's probe of a valid file."""
    output = read("probe", path)
    assert (output.status, output.complaints) == (0, "")
    (probe,) = output.of(Probed)
    return probe


def refusal(path: Path, kind: str = "probe", make: FileOrder | None = None) -> str:
    """Return the reason for which an engine refuses a file."""
    output = read(kind, path, make)
    assert (output.status, output.complaints) == (0, "")
    assert not output.of(Probed)
    assert not output.of(Poster)
    (refused,) = output.of(Refused)
    return refused.reason


def made_of(path: Path, *, reuse: bool = True) -> EngineOutput:
    """Return an engine's output for a valid file."""
    output = read("video", path, make_for(probed(path), reuse=reuse))
    assert (output.status, output.complaints) == (0, "")
    assert output.of(Refused) == []
    return output


def picture_size(data: bytes) -> tuple[int, int]:
    """Return the size in a JPEG's frame header (ISO/IEC 10918-1, B.2.2)."""
    stream = io.BytesIO(data)
    assert stream.read(2) == b"\xff\xd8"
    while True:
        marker = stream.read(2)
        length = int.from_bytes(stream.read(2), "big")
        body = stream.read(length - 2)
        if marker in (b"\xff\xc0", b"\xff\xc1", b"\xff\xc2"):
            return int.from_bytes(body[3:5], "big"), int.from_bytes(body[1:3], "big")
