"""One live source: which of its packets are usable, and when they are shown.

This module holds what belongs to a single source and ends with it. `epoch` holds what viewers get,
which may continue from one source to the next. Times that it returns are ticks of 90 000 a second
on the output clock.
"""

from collections import deque
from fractions import Fraction
from typing import Final

from media.codecs.avc import AvcConfig
from media.codecs.bits import CodecError
from media.codecs.sei import is_rotated
from media.hls.fmp4 import video_init
from media.ladder import Rendition
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoCodec, VideoTrack
from transcode.engine.core.clock import OutputClock
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.random_access import AccessPoint, AccessPointParser, fits_config
from transcode.engine.live.live_posters import PosterSource
from transcode.engine.live.sound_anchor import MOST_OFFSET, SoundAnchor
from transcode.engine.live.video_pipeline import VideoFormat
from transcode.engine.output.part_lengths import FrameInterval
from transcode.protocol.messages import Begin, Packet, SoundMoved

# A source with more frames a second is thinned, which is impossible for its own packets.
MOST_RATE: Final = 60
# The size of NAL units' lengths: that of our encoders, and of nearly all others. Players that use
# FFmpeg keep the size in a rendition's first init section.
_LENGTH_SIZE: Final = 4
# A source that is faster than another by less than this is fit to follow it.
_FASTER: Final = Fraction(11, 10)
# Some encoders declare their clock as the frame rate: 1 000 or 45 000 frames a second.
_PLAUSIBLE_RATE: Final = 240
# FLV's composition time reaches hours; no encoder reorders by more than a second.
_MOST_REORDER: Final = 5  # seconds
# Sound that arrives before the first keyframe may belong to its time: about 1.5 s of it is kept.
_EARLY_SOUND: Final = 64
# Of a preroll's sound, this much from before the beginning is decoded: four frames of HE-AAC, which
# the first one that is heard refers to.
_PRIMING: Final = VIDEO_SCALE // 5
# How far the sound may be ahead before the last picture is repeated; see `audio_pipeline` for the
# reverse. Encoders send both in the order of their times, give or take a few frames; for one that
# does not the wait grows, up to the time for which players do not notice held-back sound.
_PATIENCE: Final = VIDEO_SCALE
_MOST_PATIENCE: Final = MOST_OFFSET + _PATIENCE
# Once sound has been missing for this long, its earlier delay no longer counts.
_SOUND_GONE: Final = 4 * VIDEO_SCALE
# The error of times in whole milliseconds, of which three are added: less than half a frame.
_ROUNDING: Final = 3 * VIDEO_SCALE // 1000
# How long a picture is shown if that is unknown: a frame of 30 a second. More than a tenth of a
# second is a hole, which the next source need not repeat.
_STEP: Final = VIDEO_SCALE // 30
_MOST_STEP: Final = VIDEO_SCALE // 10
# The octets of hvcC with the profile, the chroma format and the two bit depths (14496-15, 8.3.3.1).
_HEVC_KIND: Final = (slice(1, 2), slice(16, 19))


class LiveSource:
    """The source that a `Begin` announced; `number` is its epoch.

    `frames` counts the pictures read, and `newest_ms` is the newest packet's time in the source's
    own milliseconds. `mismatched` is True if its pictures differ from its configuration. `step` is
    how long its newest picture is shown. `shown_from` is where its first picture that is shown
    belongs; `preroll` are the pictures that lead up to it, and it `leads_up` as long as it sends
    such pictures itself. It `is_reusable` if its own packets can make the top rung from a keyframe
    on. `in_order`: its pictures are decoded in the order in which they are shown, even if it does
    not declare that.
    """

    def __init__(self, begin: Begin, reports: ReportWriter, *, in_order: bool = False) -> None:
        self.number = begin.epoch
        self.video = begin.video
        self.audio = begin.audio
        self.frames = 0
        self.newest_ms = 0
        self.mismatched = False
        self.step = _STEP
        self.clock: OutputClock | None = None
        self.early_sound: deque[Packet] = deque(maxlen=_EARLY_SOUND)
        self.preroll: list[bytes] = []
        self.shown_from = 0
        self.leads_up = begin.show_from is not None and begin.video is not None
        self._show_from = begin.show_from
        self._preroll_left = begin.preroll  # packets of it that are still to come
        self._lead: int | None = None  # from its newest decode time to the newest picture's time
        self._preroll_shown = 0  # the newest picture's time in it
        self._clock_restarts = False
        self._in_order = in_order
        self._ladder = begin.ladder if begin.reuse else None
        self._longest = begin.longest
        self._reports = reports
        self.config = self._parse_config(begin.video)
        self.rate = _plausible_rate(self.config)
        self.is_reusable = self._is_reusable()
        self._parser = AccessPointParser(begin.video, self.config) if begin.video else None
        self._waits_since: int | None = None
        self._entry: int | None = None  # the first entry's time, until a later picture is shown
        self._newest_sound = 0
        self._patience = _PATIENCE
        self._anchor = SoundAnchor()
        self._sound_delay = 0  # how far the sound arrives behind the picture that it belongs to
        self._sound_arrived: int | None = None  # the newest picture's time when it did
        self._last: int | None = None

    @property
    def aspect(self) -> Fraction:
        """A pixel's width by its height, according to the configuration."""
        return self.config.aspect if self.config is not None else Fraction(1)

    @property
    def encoder_key(self) -> tuple[object, ...] | None:
        """A key that is equal for two sources whose pictures the same encoders can encode.

        Encoders keep the colours of the first picture that they were opened for. A configuration
        does not declare all of those, but encoders that feed one stream are set alike: with the
        same codec, size, sampling and depth the colours are assumed to be the same.
        """
        track = self.video
        if track is None:
            return None
        coding: tuple[object, ...] = (track.config,)
        if self.config is not None:
            coding = (self.config.chroma_format, self.config.bit_depth, self.config.colours)
        elif track.codec is VideoCodec.HEVC:
            coding = tuple(track.config[octets] for octets in _HEVC_KIND)
        return (track.codec, track.width, track.height, *coding)

    @property
    def video_format(self) -> VideoFormat | None:
        """What the video pipeline must know of the source; None if it has no picture."""
        track = self.video
        if track is None:
            return None
        order_known = self._in_order or self.config is None or self.config.reorder is not None
        return VideoFormat(track=track, order_known=order_known, aspect=self.aspect, rate=self.rate)

    @property
    def init_section(self) -> tuple[str, bytes] | None:
        """The codecs string and init section of its own packets; None if they cannot be reused."""
        track, config = self.video, self.config
        if track is None or config is None:
            return None
        size, aspect = (config.width, config.height), config.aspect
        data = video_init(config=track.config, width=size[0], height=size[1], aspect=aspect)
        return config.codecs, data

    def poster_source(self, rungs: tuple[Rendition, ...], every: int) -> PosterSource | None:
        """Return what is needed to make posters of the source; None if it has no picture."""
        if self.video is None:
            return None
        return PosterSource(track=self.video, aspect=self.aspect, rungs=rungs, every=every)

    def _is_reusable(self) -> bool:
        config, ladder = self.config, self._ladder
        if config is None or ladder is None or not ladder.renditions[0].source_size:
            return False
        top = ladder.renditions[0]
        return (
            config.plays_everywhere
            and config.length_size == _LENGTH_SIZE
            and (self.rate or 0) <= MOST_RATE + 1
            # A run keeps its renditions when the source's size changes; then the sizes differ.
            and (top.width, top.height) == (config.width, config.height)
        )

    def is_faster(self, rate: Fraction | None) -> bool:
        """Return whether it has too many frames a second to follow one that has `rate`."""
        return self.rate is not None and rate is not None and self.rate > _FASTER * rate

    def expected_rate(self, interval: FrameInterval | None) -> Fraction | None:
        """Return the frame rate to expect: the higher one of measured and declared.

        A source that begins slowly, as a telephone in the dark does, may become as fast as it
        declares.
        """
        rates = [VIDEO_SCALE / interval.ticks] if interval is not None else []
        rates += [self.rate] if self.rate is not None else []
        return min(max(rates), Fraction(MOST_RATE)) if rates else None

    def begin(self, first: int, scale: int, origin: int) -> OutputClock:
        """Place the leading track's first time at `origin`; return the clock that does so."""
        self.clock = OutputClock(first=first, scale=scale, origin=origin)
        self._newest_sound = self.shown_from = origin
        if self.preroll and self.audio is not None:
            since = origin - _PRIMING
            recent = [
                packet
                for packet in self.early_sound
                if self.clock.place(packet.pts, self.audio.scale) >= since
            ]
            self.early_sound = deque(recent, _EARLY_SOUND)
        return self.clock

    @property
    def awaits_clock(self) -> bool:
        """True until the leading track's next packet shows how its times are placed."""
        return self.clock is None or self._clock_restarts

    def can_continue(self, begin: Begin) -> bool:
        """Return whether the pictures of `begin` are the next ones of this source."""
        return begin.video == self.video

    def continue_with(self, begin: Begin) -> None:
        """Continue with what `begin` changes."""
        self.number, self.audio = begin.epoch, begin.audio
        if begin.new_clock and self.clock is not None:
            self._clock_restarts = True
            self._entry = None
            self._anchor = SoundAnchor()
            self.early_sound.clear()

    def restart_clock(self, time: int, scale: int, at: int) -> None:
        """Place the leading track's next time at `at`, if its clock has restarted."""
        if self._clock_restarts and self.clock is not None:
            self._clock_restarts = False
            self.clock.restart(time, scale, at)
            self._newest_sound = at

    # -- preroll ----------------------------------------------------------------------------------

    def take_preroll(self, packet: Packet) -> bool:
        """Keep a packet if it belongs to the preroll; return whether it does."""
        if self._preroll_left <= 0:
            return False
        self._preroll_left -= 1
        if not packet.video:
            # Sound of the time before the beginning is cut off, that of the time after it is not.
            self.early_sound.append(packet)
        elif packet.data and self._parser is not None:
            self._add_to_preroll(packet, self._parser)
        return True

    def first_shown(self, packet: Packet, track: VideoTrack) -> int:
        """Return the source's time from which pictures are shown; `packet` is the first of them.

        After a preroll the first one shown may be decoded later. It is the one that follows what
        the preroll shows. Times in the preroll may come from another clock, so only their
        differences count.
        """
        if self._show_from is not None:
            return max(self._show_from, packet.pts)
        if self._lead is None or not self.preroll:
            return packet.pts
        lead = min(max(self._lead, 0), _MOST_REORDER * track.scale)
        turn = packet.dts + lead - rescale(_ROUNDING, VIDEO_SCALE, track.scale)
        return min(turn, packet.pts)

    def _add_to_preroll(self, packet: Packet, parser: AccessPointParser) -> None:
        try:
            access = parser.classify(packet.data, key=packet.key)
        except CodecError as error:
            self._reports.count_trouble("packet not parsed", error)
            return
        if access is AccessPoint.ENTRY:
            self.preroll.clear()
        elif access is AccessPoint.OTHER and not self.preroll:
            return
        newest = max(self._preroll_shown, packet.pts) if self.preroll else packet.pts
        self._preroll_shown = newest
        self._lead = newest - packet.dts
        self.preroll.append(packet.data)

    # -- picture ----------------------------------------------------------------------------------

    def classify(self, packet: Packet, track: VideoTrack) -> AccessPoint | None:
        """Return the kind of a picture; None if it is not a picture or is unusable."""
        if not packet.data or self._parser is None:
            return None
        try:
            access = self._parser.classify(packet.data, key=packet.key)
        except CodecError as error:
            self._reports.count_trouble("packet not parsed", error)
            return None
        if not self._is_awaited(packet, access, track):
            return None
        reorder = abs(packet.pts - packet.dts)
        if reorder > _MOST_REORDER * track.scale:
            self._reports.count_trouble("picture with an absurd time", reorder)
            return None
        return access

    def place_picture(
        self, packet: Packet, clock: OutputClock, track: VideoTrack
    ) -> tuple[int, int]:
        """Count a picture if it is shown; return its decode and presentation time."""
        if self._clock_restarts:
            self.restart_clock(packet.dts, track.scale, clock.newest + self.step)
        elif clock.advance(packet.dts, track.scale):
            self._reports.count_trouble("clock jumped", packet.dts)
        dts, pts = clock.place(packet.dts, track.scale), clock.place(packet.pts, track.scale)
        if self._last is not None and dts > self._last:
            self.step = min(dts - self._last, _MOST_STEP)
        self._last = dts
        self.newest_ms = rescale(packet.pts, track.scale, MILLISECONDS)
        if (offset := self._anchor.add_picture(dts)) is not None:
            offset_ms = rescale(offset, VIDEO_SCALE, MILLISECONDS)
            self._reports.send(SoundMoved(epoch=self.number, offset_ms=offset_ms))
        if pts < self.shown_from:
            return dts, pts
        self.frames += 1
        self.leads_up = self.leads_up and dts < self.shown_from
        wait = min(self._newest_sound - pts + _PATIENCE, _MOST_PATIENCE)
        self._patience = max(self._patience, wait)
        return dts, pts

    def can_reuse(self, packet: Packet, access: AccessPoint) -> bool:
        """Return whether the packets can make the top rung from this one on."""
        config = self.config
        if config is None:
            return True
        if access is AccessPoint.ENTRY:
            turned = is_rotated(packet.data, config.length_size)
            # For good: the next one may bring no parameter sets, and need those that differ.
            self.mismatched |= turned or not fits_config(packet.data, config)
            return not self.mismatched
        return self._entry is None  # a start at a keyframe that is no IDR picture allows no copy

    def _is_awaited(self, packet: Packet, access: AccessPoint, track: VideoTrack) -> bool:
        """Return False for a packet before the first entry, in time or in presentation order."""
        if self.clock is None and not self.preroll:
            self._waits_since = packet.dts if self._waits_since is None else self._waits_since
            waited = rescale(packet.dts - self._waits_since, track.scale, VIDEO_SCALE)
            if access is AccessPoint.OTHER or (
                access is AccessPoint.KEY and waited < self._longest and not self.leads_up
            ):
                return False
            self._entry = packet.pts
        elif self._entry is not None:
            if packet.pts < self._entry:
                return False
            self._entry = None
        return True

    # -- sound ------------------------------------------------------------------------------------

    def needs_sound(self, at: int, end: int) -> bool:
        """Return whether sound that belongs to `at` is heard, or leads up to some that is.

        `end` is where the sound before it ends, which it may have to go on from.
        """
        return not self.leads_up or at >= min(self.shown_from, end) - _PRIMING

    def place_sound(self, pts: int) -> int | None:
        """Return where sound with the timestamp `pts` belongs beside the picture.

        None: it is too far from the picture, and it is not known yet whether that is constant.
        """
        at = self._anchor.place(pts)
        if at is None or self._last is None:
            return at
        # Only the first sound counts: later sound may be ahead because the picture has stalled.
        if self._sound_arrived is None:
            lead = min(at - self._last, MOST_OFFSET)
            self._patience = max(self._patience, lead + _PATIENCE)
        self._sound_arrived = self._last
        self._sound_delay = max(self._sound_delay, min(self._last - at, MOST_OFFSET))
        return at

    def sound_due(self, dts: int) -> int:
        """Return the time up to which sound is due when the picture has reached `dts`."""
        if self._sound_arrived is not None and dts - self._sound_arrived > _SOUND_GONE:
            self._sound_delay = 0
        return dts - self._sound_delay

    def note_sound(self, pts: int) -> int:
        """Record the sound's newest time; return the time up to which pictures are no longer
        awaited.
        """
        # The lower of the last two: one absurd timestamp must not stop the picture for seconds.
        until = min(pts, self._newest_sound) - self._patience
        self._newest_sound = pts
        return until

    def _parse_config(self, track: VideoTrack | None) -> AvcConfig | None:
        if track is None or track.codec is not VideoCodec.AVC:
            return None
        try:
            return AvcConfig.parse(track.config)
        except CodecError as error:
            self._reports.count_trouble("decoder configuration not parsed", error)
            return None


def _plausible_rate(config: AvcConfig | None) -> Fraction | None:
    """Return the frame rate that a source declares, unless it is implausible."""
    rate = config.frame_rate if config is not None else None
    return rate if rate is not None and 1 <= rate <= _PLAUSIBLE_RATE else None
