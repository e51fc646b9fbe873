"""Keyframes from all over a film, each decoded once: what its stills are chosen from.

Places are visited from coarse to fine, so whoever stops early has seen all of the film, only less
closely. A keyframe that several places lead to comes once.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from media.ticks import MICROSECONDS, MILLISECONDS, VIDEO_SCALE, rescale
from transcode.engine.input.container import MOST_PIXELS, Upload
from transcode.engine.input.demux import demuxed, ticks_of, times_of

__all__ = ["MOST_PLACES", "Moment", "beginning", "coarse_to_fine", "moments", "places"]

_MOST_PACKETS: Final = 300
# Decoders show pictures in another order than they come; no codec holds back more than 16.
_ORDER: Final = 32
# Between two places: a film of a few seconds has its best picture somewhere, too.
_LEAST_STEP: Final = 500_000  # µs
_STEP: Final = 2 * MICROSECONDS
# One sheet of pictures up to here; from there on a picture every ten seconds is close enough.
_FINE: Final = 100
_COARSE_STEP: Final = 10 * MICROSECONDS
# Four sheets. Each costs a seek and a keyframe, 20 ms at 1080p: 8 s for what is over an hour long.
MOST_PLACES: Final = 400


class Moment(msgspec.Struct, frozen=True):
    """A keyframe, and when it is shown: milliseconds from the film's first picture."""

    at: int
    frame: VideoFrame


def places(length_us: int) -> list[int]:
    """Return where in a film of that length to look, in microseconds from its beginning."""
    if length_us <= _LEAST_STEP:
        return [0]
    step = min(max(_STEP, length_us // _FINE), _COARSE_STEP)
    if length_us < _FINE * _LEAST_STEP:
        step = _LEAST_STEP
    step = max(step, -(-length_us // MOST_PLACES))
    return list(range(0, length_us, step))


def coarse_to_fine(count: int) -> Iterator[int]:
    """Yield the numbers below `count`, each once: every eighth before every fourth, and so on."""
    step = 1
    while step < count:
        step *= 2
    seen = -1  # all multiples of the step before are out
    while step and count:
        for number in range(0, count, step):
            if seen < 0 or number % seen:
                yield number
        seen, step = step, step // 2


def beginning(upload: Upload, picture: VideoStream) -> int:
    """Return when a film's first picture is shown, in ticks of 90 000 a second; reads from 0 on."""
    first = (times_of(packet) for packet in islice(demuxed(upload, [picture]), _ORDER))
    return min((times[1] for times in first if times is not None), default=0)


def moments(
    upload: Upload, picture: VideoStream, length_us: int, is_over: Callable[[], bool]
) -> Iterator[Moment]:
    """Yield keyframes of a file that was just opened, until it is seen to the end, or `is_over`.

    What cannot be decoded is passed over, and so are pictures that are too large.
    """
    context = picture.codec_context
    context.thread_count = 1
    context.skip_frame = "NONKEY"
    start = beginning(upload, picture)
    seen: set[int] = set()
    where = places(length_us)
    for number in coarse_to_fine(len(where)):
        if number and is_over():
            return
        first = upload.start_time or 0
        # Of a transport stream a seek to its first picture itself would miss it.
        target = first + where[number] if number else min(first, 0)
        try:
            upload.seek(target)
        except FFmpegError:
            if number:
                continue
        moment = _next(upload, picture, start, seen)
        if moment is not None:
            yield moment


def _next(upload: Upload, picture: VideoStream, start: int, seen: set[int]) -> Moment | None:
    """Return the first picture that comes from here on, if one comes soon and is a new one."""
    picture.codec_context.flush_buffers()
    asked = False
    try:
        for count, packet in enumerate(upload.demux(picture)):
            if packet.is_keyframe and packet.size and not asked:
                asked = True
                base = picture.time_base
                if packet.pts is not None and base and ticks_of(packet.pts, base) in seen:
                    return None
            try:
                frames = picture.decode(packet)
            except FFmpegError:
                continue
            if frames:
                return _moment(frames[0], start, seen)
            if count > _MOST_PACKETS:
                break
    except FFmpegError:
        pass  # the file ends here
    return None


def _moment(frame: VideoFrame, start: int, seen: set[int]) -> Moment | None:
    if not 0 < frame.width * frame.height <= MOST_PIXELS:
        return None
    base = frame.time_base
    shown = start if frame.pts is None or not base else ticks_of(frame.pts, base)
    if shown in seen:
        return None
    seen.add(shown)
    return Moment(max(0, rescale(shown - start, VIDEO_SCALE, MILLISECONDS)), frame)
