"""Sparse files of many gigabytes that take almost no space: their packets end in holes."""

from pathlib import Path
from typing import Final

from tests.support.e2e.flv_tags import HEADER, VIDEO, read
from tests.support.engine.sources import ffmpeg

# Of one packet: the largest FLV tag, minus its headers and the picture.
MOST_PADDING: Final = (1 << 24) - (1 << 16)
_FILLER: Final = b"\x0c"  # a NAL unit of filler data, which decoders skip (H.264, 7.4.1)
_RATE: Final = 25


def unclosed_flv(path: Path, pictures: int, padding: int = MOST_PADDING) -> Path:
    """Make an unfinished recording of 25 pictures a second, without an index or a length.

    Each picture is followed by `padding` bytes of filler data, nearly all of them a hole.
    """
    small = path.with_suffix(".small.flv")
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-g", str(_RATE), "-pix_fmt", "yuv420p")
    shape = f"testsrc=s=128x96:r={_RATE}:d={pictures / _RATE}"
    ffmpeg("-f", "lavfi", "-i", shape, *coding, "-flvflags", "no_duration_filesize", "-y", small)
    filler = (padding).to_bytes(4, "big") + _FILLER
    with path.open("wb") as file:
        file.write(HEADER)
        for tag in read(small):
            if tag.kind != VIDEO:
                continue
            padded = not tag.is_configuration and tag.body[1] == 1
            hole = padding - len(_FILLER) if padded else 0
            body = tag.body + filler if padded else tag.body
            size = len(body) + hole
            whole = tag.written()
            file.write(whole[:1] + size.to_bytes(3, "big") + whole[4:11] + body)
            file.seek(hole, 1)
            file.write((11 + size).to_bytes(4, "big"))
        file.seek(-4, 1)
        file.write(bytes(4))  # an invalid size: the last tag cannot be found from the end
    small.unlink()
    return path
