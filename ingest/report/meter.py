"""Measures what one encoder sends, as its packets arrive.

Pure: the time is an argument, seconds of a monotonic clock. Adding a packet costs about a
microsecond and no memory; `report` reads the last minute and costs a few milliseconds.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Final

from ingest.report import measures
from ingest.report.packet_window import WINDOW_SECONDS, PacketHistory, PacketWindow
from media.codecs.profiles import AUDIO_NAMES, VIDEO_NAMES, profile_of
from media.encoder_report import (
    ClockReport,
    EncoderReport,
    NetworkReport,
    PictureReport,
    SoundReport,
)
from media.packet import MediaPacket
from media.ticks import MILLISECONDS, rescale
from media.track import AudioTrack, Track, VideoTrack

_JUMPS_SECONDS: Final = 600.0
_MOST_JUMPS: Final = 100  # kept: far more than a connection may have in ten minutes
_DIGEST: Final = 8  # of 64: enough to distinguish two encoders' configurations


class Meter:
    """Measures one encoder; `began` is when it was admitted."""

    def __init__(self, now: float) -> None:
        self.began = now
        self._since = now  # start of what is measured
        self._last = now
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._picture = PacketHistory()
        self._sound = PacketHistory()
        self._jumps: deque[float] = deque(maxlen=_MOST_JUMPS)

    def add_track(self, track: Track, now: float) -> None:
        """Add a decoder configuration; the measured period starts anew for both tracks."""
        self._since = now
        match track:
            case VideoTrack():
                self._video = track
                self._picture.clear()
            case AudioTrack():
                self._audio = track
                self._sound.clear()

    def add_packets(self, packets: Sequence[MediaPacket], now: float) -> None:
        """Add packets that came together."""
        self._last = now
        picture, sound = self._picture, self._sound
        for packet in packets:
            track, stamp, offset = packet.track, packet.dts, packet.pts - packet.dts
            if track.scale != MILLISECONDS:
                stamp = rescale(stamp, track.scale, MILLISECONDS)
                offset = rescale(offset, track.scale, MILLISECONDS)
            size = 2 * len(packet.data) + packet.key
            if isinstance(track, VideoTrack):
                picture.append(now, stamp, offset, size, sound)
            else:
                sound.append(now, stamp, offset, size, picture)

    def clock_jumped(self, now: float) -> None:
        """Start anew, because the encoder's timestamps jumped."""
        self._since = now
        self._jumps.append(now)
        self._picture.clear()
        self._sound.clear()

    def report(self, now: float) -> EncoderReport:
        """Return the measurements."""
        kept = max(self._picture.complete_since, self._sound.complete_since)
        since = max(self._since, now - WINDOW_SECONDS, kept)
        picture, sound = self._picture.window_since(since), self._sound.window_since(since)
        return EncoderReport(
            video=self._video_report(picture),
            audio=self._audio_report(sound),
            network=self._network(picture, sound, since, now),
            clock=self._clock(picture, sound, now),
            seconds=measures.seconds(picture, sound, since, now),
        )

    def _video_report(self, window: PacketWindow) -> PictureReport | None:
        track = self._video
        if track is None or not len(window):
            return None
        profile, rate = profile_of(track), measures.bit_rates(window)
        frames, order = measures.frame_timing(window), measures.picture_order(window)
        return PictureReport(
            codec=VIDEO_NAMES[track.codec],
            profile=profile.profile,
            level=profile.level,
            width=track.width,
            height=track.height,
            configuration=_digest(track.config),
            plays_everywhere=profile.plays_everywhere,
            announced_frame_rate=profile.frame_rate,
            frame_rate=frames.rate,
            frame_rate_varies=frames.varies,
            frames=len(window),
            frames_missing=frames.missing,
            bit_rate=rate.mean,
            peak_bit_rate=rate.peak,
            keyframes=measures.keyframes(window),
            b_frames=order.b_frames,
            open_gop=order.open_gop,
        )

    def _audio_report(self, window: PacketWindow) -> SoundReport | None:
        track = self._audio
        if track is None or not len(window):
            return None
        rate = measures.bit_rates(window)
        return SoundReport(
            codec=AUDIO_NAMES[track.codec],
            rate=track.rate,
            channels=track.channels,
            configuration=_digest(track.config),
            bit_rate=rate.mean,
            peak_bit_rate=rate.peak,
        )

    def _network(
        self, picture: PacketWindow, sound: PacketWindow, since: float, now: float
    ) -> NetworkReport:
        return NetworkReport(
            measured_seconds=round(now - since, 1),
            jitter_ms=measures.jitter(picture if len(picture) else sound),
            silent_seconds=round(now - self._last, 2),
            longest_silence_seconds=round(
                measures.longest_silence([picture, sound], since, now), 2
            ),
        )

    def _clock(self, picture: PacketWindow, sound: PacketWindow, now: float) -> ClockReport:
        drift, seconds = (self._picture if len(picture) else self._sound).drift()
        jumps = sum(at >= now - _JUMPS_SECONDS for at in self._jumps)
        both = len(picture) > 0 and len(sound) > 0
        return ClockReport(
            drift_ppm=drift,
            drift_seconds=round(seconds, 1),
            jumps=jumps,
            steps_back=measures.steps_back(picture) + measures.steps_back(sound),
            interleave_ms=measures.interleave(picture) if both else None,
        )


def _digest(config: bytes) -> str:
    return hashlib.sha256(config).hexdigest()[:_DIGEST]
