"""A video's thumbnails as a player fetches them, and pictures to compare them with."""

import io
import re
from urllib.parse import urljoin

import av
from av.video.frame import VideoFrame

from tests.support.e2e.service import fetch

_CUE = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3}) --> \S+\n(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)")
_SIZE = (160, 90)


def fetch_thumbnails(address: str) -> dict[int, bytes]:
    """Return the thumbnails of a list in grey, by their start in milliseconds."""
    thumbnails: dict[int, bytes] = {}
    sheets: dict[str, tuple[bytes, int]] = {}
    for hours, minutes, seconds, milliseconds, name, *area in _CUE.findall(fetch(address).text):
        at = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(milliseconds)
        left, top, width, height = map(int, area)
        assert (width, height) == _SIZE
        if name not in sheets:
            plane = _first_frame(fetch(urljoin(address, name)).body, "jpeg_pipe").planes[0]
            sheets[name] = bytes(plane), plane.line_size
        data, line = sheets[name]
        rows = range(top, top + height)
        thumbnails[at] = b"".join(
            data[row * line + left : row * line + left + width] for row in rows
        )
    return thumbnails


def first_picture(data: bytes) -> bytes:
    """Return the first picture of a fragmented MP4, in grey and in a thumbnail's size."""
    frame = _first_frame(data, "mp4")
    small = frame.reformat(width=_SIZE[0], height=_SIZE[1], format="yuvj420p").planes[0]
    rows = range(small.height)
    line = small.line_size
    pixels = bytes(small)
    return b"".join(pixels[row * line : row * line + small.width] for row in rows)


def difference(first: bytes, second: bytes) -> float:
    """Return the mean difference of two pictures, from 0 to 255."""
    return sum(abs(a - b) for a, b in zip(first, second, strict=True)) / len(first)


def _first_frame(data: bytes, form: str) -> VideoFrame:
    with av.open(io.BytesIO(data), "r", format=form) as container:
        return next(container.decode(video=0))
