"""How good a picture is as a still: well lit, full of detail, sharp.

It is measured on a small grey copy, by filters and by counting, in about a millisecond. Entropy
tells scenes from titles and fades, the Laplacian tells sharp from blurred, and the mean luma tells
day from darkness. No single one suffices: white letters on black are sharp, and fog is well lit.
"""

import math
from typing import Final

from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame

# Wide enough to tell motion blur from a still scene; twice as wide is no better at it.
SIZE: Final = (320, 180)
_BINS: Final = 32
_BIN: Final = bytes(level * _BINS // 256 for level in range(256))
_BLACK, _WHITE = 32, 220  # mean luma of 16 to 235: too dark or too bright beyond
_MIDDLE, _REACH = 120, 100
_LAPLACIAN: Final = "0 -1 0 -1 4 -1 0 -1 0"


class ImageScorer:
    """Scores pictures of any size and format; reuses its filter."""

    def __init__(self) -> None:
        graph = Graph()
        graph.threads = 1
        source = graph.add(
            "buffer",
            video_size=f"{SIZE[0]}x{SIZE[1]}",
            pix_fmt="gray",
            time_base="1/1000",
            pixel_aspect="1/1",
        )
        edges = graph.add("convolution", **{"0m": _LAPLACIAN})
        sink = graph.add("buffersink")
        graph.link_nodes(source, edges, sink)
        graph.configure()
        self._graph = graph  # kept: the filters live as long as the graph
        self._source: FilterContext = source
        self._sink: FilterContext = sink

    def score(self, frame: VideoFrame) -> float:
        """Return how good a picture is, above 0; 5 to 40 is usual.

        Raises:
            av.error.FFmpegError: its format cannot be read.
        """
        small = frame.reformat(width=SIZE[0], height=SIZE[1], format="gray")
        small.pts = None
        levels = _luma(small)
        self._source.push(small)
        edges = self._sink.pull()
        sharp = sum(_luma(edges)) / len(levels) if isinstance(edges, VideoFrame) else 0.0
        return image_score(sum(levels) / len(levels), entropy(levels), sharp)


def image_score(mean: float, bits: float, sharp: float) -> float:
    """Return the score for a mean luma (16 to 235), entropy and mean Laplacian."""
    if not _BLACK < mean < _WHITE:
        light = 0.01
    else:
        light = 1 - 0.5 * min(1.0, abs(mean - _MIDDLE) / _REACH) ** 2
    # The root: twice the edges is a better picture, but gravel and test cards are not the best.
    return light * (0.1 + bits) * math.sqrt(0.1 + sharp)


def entropy(levels: bytes) -> float:
    """Return the bits of information in a level, from 0 (all alike) to 5."""
    if not levels:
        return 0.0
    binned = levels.translate(_BIN)
    shares = [binned.count(level) / len(binned) for level in range(_BINS)]
    return -sum(share * math.log2(share) for share in shares if share)


def _luma(grey: VideoFrame) -> bytes:
    """Return the pixels of a grey picture without the padding of its lines."""
    plane = grey.planes[0]
    data, line = bytes(plane), plane.line_size
    if line == grey.width:
        return data
    return b"".join(data[row * line : row * line + grey.width] for row in range(grey.height))
