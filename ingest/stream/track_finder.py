"""Which tracks a source has, found out while its first packets are held back.

Pure: time is an argument. Encoders send decoder configurations when they like: some send sound a
few hundred milliseconds after the picture, some announce sound that never comes. So the first
packets are held until both kinds are known or `PATIENCE` has passed since the first of them.
"""

from typing import Final

import msgspec

from media.packet import MediaPacket
from media.track import AudioTrack, Track, VideoTrack

__all__ = ["HELD_BYTES", "PATIENCE", "Begun", "TrackFinder", "continues"]

PATIENCE: Final = 1.0  # seconds from the first media to the decision
# A second of 60 Mbit/s: more than this within the patience is no encoder's start.
HELD_BYTES: Final = 8 << 20


class Begun(msgspec.Struct, frozen=True):
    """From here on packets belong to these tracks: at most one picture and one sound."""

    tracks: tuple[Track, ...]


Found = Begun | MediaPacket


def continues(run: tuple[Track, ...], source: tuple[Track, ...]) -> bool:
    """Say whether a source can go on in a run that was begun with other tracks.

    Players were told whether there is a picture, so it neither comes nor goes. Its size, codec and
    frame rate may change, for the renditions stay as they are; and sound may come and go, since
    every run has a sound rendition.
    """
    return _has_picture(run) == _has_picture(source)


def _has_picture(tracks: tuple[Track, ...]) -> bool:
    return any(isinstance(track, VideoTrack) for track in tracks)


class TrackFinder:
    """Turns tracks and packets as they come into `Begun` and the packets after it."""

    def __init__(self) -> None:
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._held: list[MediaPacket] = []
        self._held_bytes = 0
        self._since: float | None = None
        self._settled = False

    @property
    def tracks(self) -> tuple[Track, ...]:
        """What is known so far."""
        return tuple(track for track in (self._video, self._audio) if track is not None)

    def track(self, track: Track, now: float) -> list[Found]:
        """Take a decoder configuration; after the decision it begins the source anew."""
        match track:
            case VideoTrack():
                self._video = track
            case AudioTrack():
                self._audio = track
        if self._settled:
            return [Begun(self.tracks)]
        self._since = now if self._since is None else self._since
        return self._settle() if self._video is not None and self._audio is not None else []

    def packet(self, packet: MediaPacket, now: float) -> list[Found]:
        """Take a packet; it comes out at once, or held with the others at the decision."""
        if self._settled:
            return [packet]
        self._since = now if self._since is None else self._since
        self._held.append(packet)
        self._held_bytes += len(packet.data)
        return self._settle() if self._held_bytes > HELD_BYTES else self.tick(now)

    def tick(self, now: float) -> list[Found]:
        """Decide where the patience is over: call it now and then, packets or not."""
        over = self._since is not None and now - self._since >= PATIENCE
        return self._settle() if not self._settled and over and self._held else []

    def again(self) -> list[Found]:
        """The source's clock jumped: what follows is a new beginning of the same tracks."""
        return [Begun(self.tracks)] if self._settled else []

    def leave(self) -> list[Found]:
        """The source is gone: decide on what there is."""
        return self._settle() if not self._settled and self._held else []

    def _settle(self) -> list[Found]:
        self._settled = True
        held, self._held = self._held, []
        return [Begun(self.tracks), *held]
