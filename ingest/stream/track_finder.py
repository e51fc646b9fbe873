"""Determines which tracks a source has, while its first packets are held back.

Pure: the time is an argument. Encoders send decoder configurations at any time: some send audio a
few hundred milliseconds after video, some announce audio that never comes. So the first packets are
held until both kinds are known or `PATIENCE_SECONDS` have passed since the first of them.
"""

from typing import Final

import msgspec

from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import AudioTrack, Track, VideoTrack

__all__ = [
    "HELD_BYTES",
    "PATIENCE_SECONDS",
    "SourceBegun",
    "SourceItem",
    "TrackFinder",
    "continues",
    "keeps_picture",
]

PATIENCE_SECONDS: Final = 1.0  # from the first media to the decision
# A second at 60 Mbit/s: no encoder starts with more than this within the patience.
HELD_BYTES: Final = 8 << 20


class SourceBegun(msgspec.Struct, frozen=True):
    """The packets that follow belong to these tracks: at most one video and one audio track.

    With `new_clock` the tracks are the same, and only the clock has restarted.
    """

    tracks: tuple[Track, ...]
    new_clock: bool = False


SourceItem = SourceBegun | MediaPacket


def continues(run: tuple[Track, ...], source: tuple[Track, ...]) -> bool:
    """Return whether a source can continue a run that was begun with other tracks.

    Playlists announce whether there is a picture, so it can neither come nor go. Its size, codec
    and frame rate may change, because the renditions keep theirs; audio may come and go, because
    every run has an audio rendition.
    """
    return _has_picture(run) == _has_picture(source)


def keeps_picture(before: tuple[Track, ...], after: tuple[Track, ...]) -> bool:
    """Return whether the pictures of a source go on when its tracks change."""
    return bool(before) and _picture(before) == _picture(after)


def _picture(tracks: tuple[Track, ...]) -> VideoTrack | None:
    return next((track for track in tracks if isinstance(track, VideoTrack)), None)


def _has_picture(tracks: tuple[Track, ...]) -> bool:
    return _picture(tracks) is not None


class TrackFinder:
    """Turns tracks and packets as they arrive into `SourceBegun` and the packets after it.

    `lag` is that of the loop that reads the source, which extends the patience.
    """

    def __init__(self, lag: LoopLag | None = None) -> None:
        self._lag = LoopLag() if lag is None else lag
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._held_packets: list[MediaPacket] = []
        self._held_bytes = 0
        self._since: float | None = None
        self._settled = False

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks known so far."""
        return tuple(track for track in (self._video, self._audio) if track is not None)

    def add_track(self, track: Track, now: float) -> list[SourceItem]:
        """Add a decoder configuration; after the decision it begins the source anew."""
        match track:
            case VideoTrack():
                self._video = track
            case AudioTrack():
                self._audio = track
        if self._settled:
            return [SourceBegun(self.tracks)]
        self._since = now if self._since is None else self._since
        return self._settle() if self._video is not None and self._audio is not None else []

    def add_packet(self, packet: MediaPacket, now: float) -> list[SourceItem]:
        """Add a packet; before the decision it is held back and returned later."""
        if self._settled:
            return [packet]
        self._since = now if self._since is None else self._since
        self._held_packets.append(packet)
        self._held_bytes += packet.memory_bytes
        return self._settle() if self._held_bytes > HELD_BYTES else self.tick(now)

    def tick(self, now: float) -> list[SourceItem]:
        """Decide if the patience is over; to be called regularly, even without packets."""
        since = self._since
        over = since is not None and self._lag.elapsed(since, now) >= PATIENCE_SECONDS
        return self._settle() if not self._settled and over and self._held_packets else []

    def restart(self) -> list[SourceItem]:
        """Begin the same tracks anew, because the source's clock jumped."""
        return [SourceBegun(self.tracks, new_clock=True)] if self._settled else []

    def finish(self) -> list[SourceItem]:
        """Decide now, because the source has ended."""
        return self._settle() if not self._settled and self._held_packets else []

    def _settle(self) -> list[SourceItem]:
        self._settled = True
        packets, self._held_packets = self._held_packets, []
        return [SourceBegun(self.tracks), *packets]
