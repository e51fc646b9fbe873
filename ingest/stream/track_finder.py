"""Determines which tracks a source has, while its first packets are held back.

Pure: the time is an argument. Encoders send decoder configurations at any time: some send audio a
few hundred milliseconds after video, some announce audio that never comes. So the first packets are
held until both kinds are known or `PATIENCE_SECONDS` have passed since the first of them. A picture
that is announced is waited for up to `PICTURE_SECONDS`, because a run cannot get one later; sound
alone is held then, for no longer than other packets are.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import AudioTrack, Track, VideoTrack

PATIENCE_SECONDS: Final = 1.0  # from the first media to the decision
# The same for an announced picture. A relay that joins between keyframes sends sound at once, and
# the picture from the next keyframe on. x264 makes one every 250 pictures unless it is told
# otherwise: 10.4 s at 24 a second. Some programs take 1 to 4 s to open a camera.
PICTURE_SECONDS: Final = 12.0
# A second at 60 Mbit/s: no encoder starts with more than this within the patience.
HELD_BYTES: Final = 8 << 20


class SourceBegun(msgspec.Struct, frozen=True):
    """The packets that follow belong to these tracks: at most one video and one audio track.

    The first of them are those that were held back until now. With `new_clock` the tracks are the
    same, and only the clock has restarted.
    """

    tracks: tuple[Track, ...]
    held: tuple[MediaPacket, ...] = ()
    new_clock: bool = False


def continues(run: tuple[Track, ...], source: tuple[Track, ...]) -> bool:
    """Return whether a source can continue a run that was begun with other tracks.

    Playlists announce whether there is a picture, so it can neither come nor go. Its size, codec
    and frame rate may change, because the renditions keep theirs; audio may come and go, because
    every run has an audio rendition.
    """
    return has_picture(run) == has_picture(source)


def has_picture(tracks: tuple[Track, ...]) -> bool:
    """Return whether there is a video track among these."""
    return _picture(tracks) is not None


def keeps_picture(before: tuple[Track, ...], after: tuple[Track, ...]) -> bool:
    """Return whether the pictures of a source go on when its tracks change."""
    return bool(before) and _picture(before) == _picture(after)


def _picture(tracks: tuple[Track, ...]) -> VideoTrack | None:
    return next((track for track in tracks if isinstance(track, VideoTrack)), None)


class TrackFinder:
    """Turns tracks, and packets as they arrive before all tracks are known, into `SourceBegun`.

    `lag` is that of the loop that reads the source, which extends the patience.
    """

    def __init__(self, lag: LoopLag | None = None) -> None:
        self._lag = LoopLag() if lag is None else lag
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._held_packets: deque[tuple[float, MediaPacket]] = deque()  # when each arrived
        self._held_bytes = 0
        self._since: float | None = None
        self.is_settled = False  # packets need not be added any more
        self._is_announced = False

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks known so far."""
        return tuple(track for track in (self._video, self._audio) if track is not None)

    @property
    def awaits_picture(self) -> bool:
        """True while the source is held back because an announced picture has not come."""
        return self._is_announced and self._video is None and not self.is_settled

    def announce_picture(self) -> None:
        """Wait longer for a picture, as the source announces one."""
        self._is_announced = True

    def give_picture_up(self, now: float) -> SourceBegun | None:
        """Wait no longer than for other tracks, as the announced picture cannot be used."""
        self._is_announced = False
        return self.tick(now)

    def add_track(self, track: Track, now: float) -> SourceBegun | None:
        """Add a decoder configuration; after the decision it begins the source anew."""
        match track:
            case VideoTrack():
                self._video = track
            case AudioTrack():
                self._audio = track
        if self.is_settled:
            return SourceBegun(self.tracks)
        self._since = now if self._since is None else self._since
        return self._settle() if self._video is not None and self._audio is not None else None

    def hold(self, packets: Sequence[MediaPacket], now: float) -> SourceBegun | None:
        """Hold packets back until the decision."""
        self._since = now if self._since is None else self._since
        for packet in packets:
            self._held_packets.append((now, packet))
            self._held_bytes += packet.memory_bytes
        if self.awaits_picture:
            self._drop_before(now - PATIENCE_SECONDS)
        return self._settle() if self._held_bytes > HELD_BYTES else self.tick(now)

    def tick(self, now: float) -> SourceBegun | None:
        """Decide if the patience is over; to be called regularly, even without packets."""
        if self.is_settled or not self._held_packets:
            return None
        since = self._since
        patience = PICTURE_SECONDS if self.awaits_picture else PATIENCE_SECONDS
        over = since is not None and self._lag.elapsed(since, now) >= patience
        return self._settle() if over else None

    def restart(self) -> SourceBegun | None:
        """Begin the same tracks anew, because the source's clock jumped."""
        return SourceBegun(self.tracks, new_clock=True) if self.is_settled else None

    def finish(self) -> SourceBegun | None:
        """Decide now, because the source has ended: without its announced picture it is none."""
        undecided = not self.is_settled and not self.awaits_picture
        return self._settle() if undecided and self._held_packets else None

    def _drop_before(self, moment: float) -> None:
        while self._held_packets[0][0] < moment:
            self._held_bytes -= self._held_packets.popleft()[1].memory_bytes

    def _settle(self) -> SourceBegun:
        self.is_settled = True
        held = tuple(packet for _, packet in self._held_packets)
        self._held_packets.clear()
        return SourceBegun(self.tracks, held)
