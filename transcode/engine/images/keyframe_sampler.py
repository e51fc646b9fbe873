"""Keyframes from all over a file, each decoded once: the candidates for its stills.

The order of the samples is that of `media.sample_times`. A keyframe that several sample times lead
to is yielded once.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from media.sample_times import coarse_to_fine, sample_times
from media.ticks import MICROSECONDS, MILLISECONDS, VIDEO_SCALE, rescale
from transcode.engine.input.container import Upload
from transcode.engine.input.demux import demux, packet_times, to_ticks
from transcode.engine.input.whole_picture import decode_whole

_MOST_PACKETS: Final = 300
# Packets are not in presentation order; no codec holds back more than 16 pictures.
_MOST_REORDERED: Final = 32


class SampledKeyframe(msgspec.Struct, frozen=True):
    """A keyframe, and when it is shown: milliseconds from the file's first picture."""

    at: int
    frame: VideoFrame


def first_picture_time(upload: Upload, picture: VideoStream) -> int:
    """Return when a file's first picture is shown, in ticks of 90 000 a second; reads from 0 on."""
    return _earliest(islice(demux(upload, [picture]), _MOST_REORDERED))


def _earliest(packets: "Iterable[Packet[Stream]]") -> int:
    each_times = (packet_times(packet) for packet in packets)
    return min((times[1] for times in each_times if times is not None), default=0)


def sample_keyframes(
    upload: Upload, picture: VideoStream, length_us: int, is_over: Callable[[], bool]
) -> Iterator[SampledKeyframe]:
    """Yield keyframes of a file that was just opened, until all are sampled or `is_over`.

    Pictures that cannot be decoded, are damaged or too large are skipped.
    """
    context = picture.codec_context
    context.thread_count = 1
    context.skip_frame = "NONKEY"
    first = list(islice(demux(upload, [picture]), _MOST_REORDERED))
    start = _earliest(first)
    seen_times: set[int] = set()
    times = sample_times(length_us)
    with_palette = next((each for each in first if each.has_sidedata("palette")), None)
    if with_palette is not None:
        decode_whole(picture, with_palette)  # some files have one palette, which is not read again
        keyframes = _all_keyframes(upload, picture, start, seen_times)
        yield from _thinned(keyframes, times, is_over)
        return
    for number in coarse_to_fine(len(times)):
        if number and is_over():
            return
        start_us = upload.start_time or 0
        # In a transport stream, a seek to the first picture's own time would miss it.
        before_start = start_us - MICROSECONDS if start_us < 0 else 0
        target = start_us + times[number] if number else before_start
        try:
            upload.seek(target)
        except FFmpegError:
            if number:
                continue
        keyframe = _next_keyframe(upload, picture, start, seen_times)
        if keyframe is not None:
            yield keyframe


def _all_keyframes(
    upload: Upload, picture: VideoStream, start: int, seen_times: set[int]
) -> Iterator[SampledKeyframe]:
    """Yield a file's keyframes in order: a palette holds up to the next, wherever that is."""
    upload.seek(0)
    for packet in demux(upload, [picture]):
        frame = decode_whole(picture, packet)
        keyframe = None if frame is None else _keyframe(frame, picture, start, seen_times)
        if keyframe is not None:
            yield keyframe


def _thinned(
    keyframes: Iterator[SampledKeyframe], times: list[int], is_over: Callable[[], bool]
) -> Iterator[SampledKeyframe]:
    """Yield the first keyframe at or after each of the times, in microseconds."""
    number = 0
    for keyframe in keyframes:
        if number == len(times) or (number and is_over()):
            return
        if keyframe.at * 1000 >= times[number]:
            number = bisect_right(times, keyframe.at * 1000)
            yield keyframe


def _next_keyframe(
    upload: Upload, picture: VideoStream, start: int, seen_times: set[int]
) -> SampledKeyframe | None:
    """Return the next keyframe from here on; None if it is far away or already seen."""
    picture.codec_context.flush_buffers()
    since_key = 0
    for count, packet in enumerate(demux(upload, [picture])):
        if packet.is_keyframe and not since_key:
            since_key = 1
            base = picture.time_base
            if packet.pts is not None and base and to_ticks(packet.pts, base) in seen_times:
                return None
        frame = decode_whole(picture, packet)
        if frame is not None:
            return _keyframe(frame, picture, start, seen_times)
        since_key += bool(since_key)
        if since_key > _MOST_REORDERED or count > _MOST_PACKETS:
            break
    # A decoder holds a picture back until it knows which one is shown before it.
    frame = decode_whole(picture, None)
    return None if frame is None else _keyframe(frame, picture, start, seen_times)


def _keyframe(
    frame: VideoFrame, picture: VideoStream, start: int, seen_times: set[int]
) -> SampledKeyframe | None:
    base = frame.time_base or picture.time_base  # a frame that was flushed has none of its own
    shown = start if frame.pts is None or not base else to_ticks(frame.pts, base)
    if shown in seen_times:
        return None
    seen_times.add(shown)
    return SampledKeyframe(max(0, rescale(shown - start, VIDEO_SCALE, MILLISECONDS)), frame)
