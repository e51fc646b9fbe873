"""Detects when a source's keyframes are regular again after the encoder took over the top rung.

Pure. Once an epoch's top rung is encoded it stays so, because its cuts no longer wait for the
source's keyframes. When they have been regular for a while, a new epoch uses the source's own
packets again. The wait is doubled each time. If the encoder took over only because the source went
on in the middle of a GOP, the next keyframe is enough.
"""

from collections.abc import Sequence
from typing import Final

from media.codecs.avc import AvcConfig, first_slice_is_idr
from media.codecs.bits import CodecError
from media.hls.playlist import TARGET_SECONDS
from media.packet import MediaPacket
from media.track import Track, VideoCodec, VideoTrack

_FIRST_WAIT: Final = 4
_LONGEST_WAIT: Final = 256
# A keyframe that comes sooner after a beginning would leave a segment that some players wait for.
_LEAST_SECONDS: Final = 1


class KeyframeMonitor:
    """Watches the keyframes of one run's source from `watch` until `stop`."""

    def __init__(self) -> None:
        self._length_size: int | None = None  # set while watching
        self._wait = _FIRST_WAIT
        self._count = 0
        self._last: int | None = None
        self._at_next = False
        self._since: int | None = None  # when the beginning was, if the next keyframe is awaited

    def stop(self) -> None:
        """Stop watching: a source starts, and its own packets are used."""
        self._length_size = None

    def watch(self, track: VideoTrack, *, at_next: bool = False) -> None:
        """Watch a source whose keyframes were missing, so that its top rung is encoded.

        With `at_next` it began in the middle of a GOP, and is regular.
        """
        self._count, self._last = 0, None
        self._at_next, self._since = at_next, None
        self._length_size = None
        if track.codec is VideoCodec.AVC:
            try:
                self._length_size = AvcConfig.parse(track.config).length_size
            except CodecError:
                return

    def follow(self, tracks: tuple[Track, ...]) -> None:
        """Watch another source instead, if one was watched: its top rung is encoded, too."""
        video = next((track for track in tracks if isinstance(track, VideoTrack)), None)
        if self._length_size is not None and video is not None:
            self.watch(video)

    def find_regular(self, packets: Sequence[MediaPacket]) -> int | None:
        """Observe the source's next packets; return with which of them a new epoch should start."""
        if self._length_size is None:
            return None
        return next((place for place, each in enumerate(packets) if self._observe(each)), None)

    def _observe(self, packet: MediaPacket) -> bool:
        if self._length_size is None or not isinstance(packet.track, VideoTrack):
            return False
        if self._last is not None:
            since = packet.dts - self._last
            if not 0 < since <= TARGET_SECONDS * packet.track.scale:
                self._count, self._last = 0, None
        self._since = packet.dts if self._since is None else self._since
        # Not all of the packet: it comes from the encoder, and this is the event loop.
        if not packet.key or not first_slice_is_idr(packet.data, self._length_size):
            return False
        if self._at_next:
            least = _LEAST_SECONDS * packet.track.scale
            is_late_enough = not 0 <= packet.dts - self._since < least
            self._length_size = None if is_late_enough else self._length_size
            return is_late_enough
        self._last = packet.dts
        self._count += 1
        if self._count <= self._wait:
            return False
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._length_size = None
        return True
