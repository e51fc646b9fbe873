"""Films whose pictures show their number, and a reader of the numbers."""

import io
from pathlib import Path
from typing import Final

import av

from tests.support.engine.sources import ffmpeg

_BITS: Final = 12
_WHITE: Final = 125


def numbered(
    path: Path,
    *coding: str,
    seconds: float,
    size: tuple[int, int] = (480, 270),
    rate: str = "25",
    sound: str | None = "anoisesrc=a=0.3:r=48000:seed=5,aformat=channel_layouts=stereo",
    filters: str = "",
) -> Path:
    """Make a film whose n-th picture shows n in twelve bars, the lowest bit on the left."""
    width = size[0] // _BITS
    bars = ",".join(
        f"drawbox=x={bit * width}:y=0:w={width}:h=ih:c=white:t=fill"
        f":enable='eq(mod(floor(n/{1 << bit}),2),1)'"
        for bit in range(_BITS)
    )
    # Two lines are fast to draw, and all others are the same.
    shape = f"scale={size[0]}:{size[1]}:flags=neighbor,setsar=1"
    picture = f"color=black:s={size[0]}x2:r={rate}:d={seconds},{bars},{shape}{filters}"
    audio = ["-f", "lavfi", "-i", sound] if sound else []
    ffmpeg(
        *("-f", "lavfi", "-i", picture, *audio, "-t", str(seconds)),
        *("-threads", "1", *coding, "-pix_fmt", "yuv420p", "-y", path),
    )
    return path


def numbers(data: bytes) -> list[tuple[int, int]]:
    """Return time and number of a file's pictures, in presentation order."""
    pictures: list[tuple[int, int]] = []
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(video=0):
            plane = frame.planes[0]
            row = bytes(plane)[frame.height // 2 * plane.line_size :]
            bits = [
                row[(2 * bit + 1) * frame.width // (2 * _BITS)] > _WHITE for bit in range(_BITS)
            ]
            pictures.append(
                (frame.pts or 0, sum(1 << bit for bit, is_set in enumerate(bits) if is_set))
            )
    return pictures
