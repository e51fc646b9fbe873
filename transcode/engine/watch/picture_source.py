"""The newest pictures of one source: kept as they came, decoded where they are looked at.

Decoding all of them would cost more than a live run's encoders, so `follow` decodes from a keyframe
on for as long as it is wanted, `glance` decodes a keyframe now and then, and in between the sizes
of packets have to do: those of a black or a frozen picture are a small part of the usual.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec
import numpy as np
from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE, rescale
from media.track import VideoCodec, VideoTrack
from transcode.engine.codec.decode import TrackVideoDecoder
from transcode.engine.watch.pictures import Picture, Pictures, pictures_of, signature
from transcode.protocol.watch_messages import WatchedPicture

# Packets: what a source may be ahead of another one (3 s), a second in which a fault is suspected,
# one before it, back to a keyframe.
_KEPT_PACKETS: Final = 5 * VIDEO_SCALE
# 8.3 s at 8 Mbit/s. Of a source with more, the oldest GOP goes, and may be the only one.
_MOST_BYTES: Final = 8 << 20
_MOST_PACKETS: Final = 2_000
# Signatures and sizes: what both showed before a fault that is noticed late.
_KEPT_PICTURES: Final = 30 * VIDEO_SCALE
_MOST_PICTURES: Final = 2_000
# A keyframe takes 0.1 ms for each kB: 3 ms a second for one source.
_GLANCED_BYTES: Final = 30_000  # a second
_LEAST_GLANCE: Final = 19 * VIDEO_SCALE // 10

# NAL units that fill up a constant bit rate (14496-10, 7.4.2.7; 23008-2, 7.4.2.2).
_FILLERS: Final[Mapping[VideoCodec, Callable[[int], bool]]] = {
    VideoCodec.AVC: lambda header: header & 0x1F == 12,
    VideoCodec.HEVC: lambda header: header >> 1 & 0x3F == 38,
}
_LENGTH_SIZE: Final = 4  # of a NAL unit, in all that encoders send
_MOST_UNITS: Final = 64  # that are looked at in a packet

_LEAST_SECONDS: Final = 8  # that must be known for a usual one

# glibc keeps what decoders have freed, 27 MB of one of 1080p; other libraries have no such call.
_give_back: Final[Callable[[int], int] | None] = getattr(ctypes.CDLL(None), "malloc_trim", None)


class _Kept(msgspec.Struct, frozen=True, gc=False):
    dts: int
    pts: int
    key: bool
    data: bytes


class _Size(msgspec.Struct, frozen=True, gc=False):
    pts: int
    key: bool
    size: int


class PictureSource:
    """The pictures of one track from its clock's last restart on; 90 000 ticks are a second."""

    def __init__(self, track: VideoTrack) -> None:
        self._track = track
        self._packets: deque[_Kept] = deque()
        self._bytes = 0
        self._sizes: deque[_Size] = deque(maxlen=_MOST_PICTURES)
        self._pictures: dict[int, Picture] = {}
        self._glances: deque[int] = deque(maxlen=2)
        self._decoder: TrackVideoDecoder | None = None
        self._decoded = 0  # the decode time of the newest packet that was decoded
        self.end: int | None = None
        self.seen_until: int | None = None
        """The time of the newest picture that `follow` has decoded; None if it has not begun."""

    @property
    def kept_bytes(self) -> int:
        """How much of its packets is kept."""
        return self._bytes

    def add(self, packets: Iterable[WatchedPicture]) -> None:
        """Add packets in decode order."""
        for each in packets:
            dts = rescale(each.dts, self._track.scale, VIDEO_SCALE)
            pts = rescale(each.pts, self._track.scale, VIDEO_SCALE)
            self.end = pts if self.end is None else max(self.end, pts)
            self._sizes.append(_Size(pts, each.key, self._coded_bytes(each.data)))
            if each.key or self._packets:
                self._packets.append(_Kept(dts, pts, each.key, each.data))
                self._bytes += len(each.data)
        self._trim()

    def _coded_bytes(self, data: bytes) -> int:
        """Return the size of a packet without what fills up a constant bit rate."""
        is_filler = _FILLERS.get(self._track.codec)
        if is_filler is None:
            return len(data)
        place, size = 0, len(data)
        for _ in range(_MOST_UNITS):
            start = place + _LENGTH_SIZE
            place = start + int.from_bytes(data[place:start], "big")
            if start >= len(data) or place > len(data):
                break
            if is_filler(data[start]):
                size -= place - start
        return size

    def _trim(self) -> None:
        while self._second_keyframe_is_due():
            self._drop()
            while self._packets and not self._packets[0].key:
                self._drop()
        if self._bytes > _MOST_BYTES or len(self._packets) > _MOST_PACKETS:
            self._packets.clear()  # one GOP is too long: nothing before its end can be decoded
            self._bytes = 0
        if self.end is not None:
            oldest = self.end - _KEPT_PICTURES
            while self._sizes and self._sizes[0].pts < oldest:
                self._sizes.popleft()
            if len(self._pictures) > _MOST_PICTURES or min(self._pictures, default=0) < oldest:
                kept = sorted(self._pictures)[-_MOST_PICTURES:]
                self._pictures = {at: self._pictures[at] for at in kept if at >= oldest}

    def _second_keyframe_is_due(self) -> bool:
        """Return whether the oldest GOP is not needed, or is too much."""
        too_much = self._bytes > _MOST_BYTES or len(self._packets) > _MOST_PACKETS
        second = next((each for each in islice(self._packets, 1, None) if each.key), None)
        if second is None or self.end is None:
            return False
        return too_much or second.pts <= self.end - _KEPT_PACKETS

    def _drop(self) -> None:
        self._bytes -= len(self._packets.popleft().data)

    # -- sizes ------------------------------------------------------------------------------------

    def share(self, since: int, until: int) -> float | None:
        """Return the bytes between two times by what is usual in so long; None if it is unknown.

        Keyframes do not count, except where there is nothing else.
        """
        times = np.array([each.pts for each in self._sizes], np.int64)
        if not len(times) or until <= since:
            return None
        keys = np.array([each.key for each in self._sizes])
        sizes = np.array([each.size for each in self._sizes], np.float64)
        inside = (times > since) & (times <= until)
        if not inside.any():
            return None
        if keys.all():
            usual = float(np.sort(sizes)[len(sizes) // 2])
            return float(sizes[inside].mean()) / max(1.0, usual)
        seconds = (until - times[~keys]) // VIDEO_SCALE
        sums = np.bincount(seconds[seconds >= 0], weights=sizes[~keys][seconds >= 0])
        if len(sums) < _LEAST_SECONDS:
            return None
        usual = float(np.sort(sums)[len(sums) // 2])
        now = float(sizes[inside & ~keys].sum()) * VIDEO_SCALE / (until - since)
        return now / max(1.0, usual)

    # -- signatures -------------------------------------------------------------------------------

    def pictures(self) -> Pictures:
        """Return the signatures of what was decoded in the last half a minute."""
        return pictures_of(self._pictures.values())

    def glance(self, *, closely: bool = False) -> None:
        """Decode the newest keyframe, if that is due: the larger they are, the fewer."""
        newest = next((each for each in reversed(self._packets) if each.key), None)
        if newest is None:
            return
        due = _LEAST_GLANCE
        if not closely:
            due = max(due, len(newest.data) * VIDEO_SCALE // _GLANCED_BYTES)
        if self._glances and newest.pts - self._glances[-1] < due:
            return
        self._glances.append(newest.pts)
        if newest.pts in self._pictures:
            return
        try:
            decoder = TrackVideoDecoder(self._track, order_known=True)
            for frame in (*decoder.decode(newest.data, newest.dts, newest.pts), *decoder.drain()):
                self._see(frame)
        except FFmpegError:
            return

    def glances(self) -> Pictures:
        """Return the signatures of the newest two keyframes that were glanced at."""
        seen = (self._pictures.get(each) for each in self._glances)
        return pictures_of(each for each in seen if each is not None)

    def follow(self, since: int, most: int, *, every: bool = False) -> int:
        """Decode what came since a time, from the keyframe before it on; at most so many packets.

        Pictures that no other one needs are left out, if it is not to be `every` one. Return how
        many were decoded. The next call goes on where this one ended.
        """
        if self._decoder is None:
            start = next((each for each in reversed(self._packets)
                          if each.key and each.pts <= since), None)  # fmt: skip
            start = start or next(iter(self._packets), None)
            if start is None:
                return 0
            self._decoded = start.dts - 1
            try:
                self._decoder = TrackVideoDecoder(self._track, order_known=True)
            except FFmpegError:
                return 0
        self._decoder.skip_unreferenced(on=not every)
        due = [each for each in self._packets if each.dts > self._decoded][:most]
        for each in due:
            self._decoded = each.dts
            try:
                for frame in self._decoder.decode(each.data, each.dts, each.pts):
                    self._see(frame)
                    self.seen_until = frame.pts
            except FFmpegError:
                continue
        return len(due)

    @property
    def is_followed(self) -> bool:
        """Whether `follow` has begun, and `leave` has not come."""
        return self._decoder is not None

    def leave(self) -> None:
        """Decode no more, and give back the memory that it took."""
        if self._decoder is not None:
            self._decoder = self.seen_until = None
            if _give_back is not None:
                _give_back(0)

    def _see(self, frame: VideoFrame) -> None:
        if frame.pts is None or frame.is_corrupt:
            return
        seen = signature(frame, frame.pts)
        if seen is not None:
            self._pictures[seen.time] = seen
