"""Stills of an uploaded file: the best of several keyframes, as a JPEG for each rung.

Good is what has detail and is neither black nor washed out; the first pictures of many films are
black, titles or fades.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Final

from av.codec.context import CodecContext, Flags
from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from transcode.engine.decode import TIME_BASE
from transcode.engine.scale import Cascade
from transcode.engine.upload import (
    MOST_PIXELS,
    BadUpload,
    Upload,
    aspect_of,
    opened,
    picture_of,
)
from transcode.wire import Make, Poster

__all__ = ["jpeg", "measured", "posters", "score"]

# Places in the film that are looked at. Each costs a seek and a keyframe: 20 ms at 1080p.
_PLACES: Final = 12
_MICROSECONDS: Final = 1_000_000
_MOST_PACKETS: Final = 300
_THUMBNAIL: Final = (64, 36)
_BLACK, _WHITE = 32, 220  # mean luma, of 16 to 235
_QUALITY: Final = "3"  # of 2 (best) to 31


def posters(descriptor: int, make: Make) -> list[Poster]:
    """Return a poster for each rung, largest first.

    Raises:
        BadUpload: no picture can be decoded.
    """
    if make.ladder is None:
        return []
    with opened(descriptor) as upload:
        picture = picture_of(upload)
        if picture is None:
            raise BadUpload("The file has no picture.")
        frame = _best(upload, picture)
        aspect = aspect_of(picture)
    rungs = make.ladder.renditions
    made = Cascade(tuple((rung.width, rung.height) for rung in rungs)).scale(frame, aspect)
    return [
        Poster(label=rung.name, width=still.width, height=still.height, data=jpeg(still))
        for rung, still in zip(rungs, made, strict=True)
    ]


def score(frame: VideoFrame) -> float:
    """Say how good a still is: how much its neighbouring pixels differ, if it is well lit."""
    mean, detail = measured(frame)
    return detail if _BLACK < mean < _WHITE else detail / 100


def measured(frame: VideoFrame) -> tuple[float, float]:
    """Return a still's mean luma (16 to 235) and by how much its neighbouring pixels differ."""
    wide, high = _THUMBNAIL
    small = frame.reformat(width=wide, height=high, format="gray")
    plane = small.planes[0]
    data, line = bytes(plane), plane.line_size
    rows = [data[place * line : place * line + wide] for place in range(high)]
    mean = sum(map(sum, rows)) / (wide * high)
    across = sum(abs(a - b) for row in rows for a, b in pairwise(row))
    down = sum(abs(a - b) for one, two in pairwise(rows) for a, b in zip(one, two, strict=True))
    return mean, (across + down) / (wide * high)


def jpeg(still: VideoFrame) -> bytes:
    """Return a picture in 4:2:0 as a JPEG."""
    whole = still.reformat(format="yuvj420p", dst_color_range="JPEG")
    whole.pict_type = PictureType.NONE
    whole.pts, whole.time_base = 0, TIME_BASE
    context = CodecContext.create("mjpeg", "w")
    context.width, context.height, context.pix_fmt = whole.width, whole.height, "yuvj420p"
    context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
    context.thread_count = 1
    context.flags |= Flags.bitexact
    context.options = {"qmin": _QUALITY, "qmax": _QUALITY}
    return b"".join(bytes(packet) for packet in (*context.encode(whole), *context.encode(None)))


def _best(upload: Upload, picture: VideoStream) -> VideoFrame:
    context = picture.codec_context
    context.thread_count = 1
    context.skip_frame = "NONKEY"
    best: VideoFrame | None = None
    highest = -1.0
    for frame in _candidates(upload, picture):
        if frame.width * frame.height > MOST_PIXELS:
            continue
        found = score(frame)
        if found > highest:
            best, highest = frame, found
    if best is None:
        raise BadUpload("No picture of the file can be decoded.")
    return best


def _candidates(upload: Upload, picture: VideoStream) -> Iterator[VideoFrame]:
    """Yield a keyframe of each of several places; where seeking leads nowhere, the first ones."""
    length, start = upload.duration or 0, upload.start_time or 0
    places = [start + length * (place + 1) // (_PLACES + 1) for place in range(_PLACES)]
    found = 0
    for place in (start, *places) if length > _MICROSECONDS else (start,):
        try:
            upload.seek(place)
        except FFmpegError:
            continue
        frame = _next(upload, picture)
        if frame is not None:
            found += 1
            yield frame


def _next(upload: Upload, picture: VideoStream) -> VideoFrame | None:
    """Return the first picture that comes from here on, if one comes soon."""
    picture.codec_context.flush_buffers()
    try:
        for count, packet in enumerate(upload.demux(picture)):
            try:
                frames = picture.decode(packet)
            except FFmpegError:
                continue
            if frames:
                return frames[0]
            if count > _MOST_PACKETS:
                break
    except FFmpegError:
        pass  # the file ends here
    return None
