"""Detects when a source's keyframes are regular again after the encoder took over the top rung.

Pure. Once the encoder has taken over, cuts do not wait for the source's keyframes any more. When
those have been regular for a while, the source's own packets make the top rung again. The wait is
doubled each time.
"""

from collections.abc import Sequence
from typing import Final

from media.codecs.avc import AvcConfig, first_slice_is_idr
from media.codecs.bits import CodecError
from media.hls.playlist import TARGET_SECONDS
from media.packet import MediaPacket
from media.track import VideoCodec, VideoTrack

_FIRST_WAIT: Final = 4
_LONGEST_WAIT: Final = 256


class KeyframeMonitor:
    """Watches the keyframes of one run's source from `watch` until `stop`."""

    def __init__(self) -> None:
        self._length_size: int | None = None  # set while watching
        self._wait = _FIRST_WAIT
        self._count = 0
        self._last: int | None = None

    def stop(self) -> None:
        """Stop watching: a source starts, and its own packets are used."""
        self._length_size = None

    def watch(self, track: VideoTrack) -> None:
        """Watch a source whose keyframes were missing, so that its top rung is encoded."""
        self._count, self._last = 0, None
        self._length_size = None
        if track.codec is VideoCodec.AVC:
            try:
                self._length_size = AvcConfig.parse(track.config).length_size
            except CodecError:
                return

    def find_regular(self, packets: Sequence[MediaPacket]) -> int | None:
        """Observe the source's next packets; return which of them is a keyframe to go on with."""
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
        # Not all of the packet: it comes from the encoder, and this is the event loop.
        if not packet.key or not first_slice_is_idr(packet.data, self._length_size):
            return False
        self._last = packet.dts
        self._count += 1
        if self._count <= self._wait:
            return False
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._length_size = None
        return True
