"""Whether a source's keyframes have become regular again after the encoder had to take over.

Pure. Once an epoch's top rung is encoded it stays so, because its cuts no longer wait for the
source. When the source has behaved for a while a new beginning gives the rung back to it. Each time
it turns out too early, the wait is doubled.
"""

from typing import Final

from media.codecs.avc import AvcConfig, AvcError, is_idr
from media.hls.playlist import TARGET_SECONDS
from media.packet import MediaPacket
from media.track import VideoCodec, VideoTrack

__all__ = ["Keyframes"]

_FIRST_WAIT: Final = 4
_LONGEST_WAIT: Final = 256


class Keyframes:
    """Watches one run's source; only after `lost` is there anything to watch."""

    def __init__(self) -> None:
        self._length_size: int | None = None  # set while the encoder makes the top rung
        self._wait = _FIRST_WAIT
        self._count = 0
        self._last: int | None = None

    def begin(self) -> None:
        """The source begins anew, and with it the use of its own packets."""
        self._length_size = None

    def lost(self, track: VideoTrack) -> None:
        """The keyframes of a source stayed away: the encoder makes its top rung."""
        self._count, self._last = 0, None
        self._length_size = None
        if track.codec is VideoCodec.AVC:
            try:
                self._length_size = AvcConfig.parse(track.config).length_size
            except AvcError:
                return

    def regular_again(self, packet: MediaPacket) -> bool:
        """Take the source's next packet; True where a new beginning at it is worth it."""
        if self._length_size is None or not isinstance(packet.track, VideoTrack):
            return False
        if self._last is not None:
            since = packet.dts - self._last
            if not 0 < since <= TARGET_SECONDS * packet.track.scale:
                self._count, self._last = 0, None
        if not packet.key or not self._is_idr(packet):
            return False
        self._last = packet.dts
        self._count += 1
        if self._count <= self._wait:
            return False
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        self._length_size = None
        return True

    def _is_idr(self, packet: MediaPacket) -> bool:
        try:
            return bool(is_idr(packet.data, self._length_size or 4))
        except AvcError:
            return False
