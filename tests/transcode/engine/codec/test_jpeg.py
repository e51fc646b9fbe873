"""Pictures as JPEGs."""

import io
from random import Random

import av

from tests.support.engine.raw_images import flat
from transcode.engine.codec.jpeg import encode_jpeg


def mean(data: bytes) -> float:
    """The mean luma of a JPEG, from 0 to 255."""
    with av.open(io.BytesIO(data), "r", format="jpeg_pipe") as container:
        frame = next(container.decode(video=0)).reformat(width=16, height=16, format="gray")
    return sum(bytes(frame.planes[0])) / len(bytes(frame.planes[0]))


def test_a_jpeg_keeps_what_it_shows() -> None:
    # Video's range is 16 to 235, that of a JPEG 0 to 255.
    assert abs(mean(encode_jpeg(flat(126))) - 128) < 3
    assert mean(encode_jpeg(flat(16))) < 3


def test_a_lower_quality_is_smaller() -> None:
    still = flat(100, size=(640, 360))
    still.planes[0].update(Random(1).randbytes(still.planes[0].buffer_size))
    assert len(encode_jpeg(still, quality=20)) < len(encode_jpeg(still))
