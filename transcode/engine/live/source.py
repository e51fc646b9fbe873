"""One source's packets, judged: which can be begun with, and when they are shown.

What belongs to a single source is here, and ends with it; what viewers get goes on in `epoch`,
which may take one source after the other. Times that come out are ticks of 90 000 a second on the
output clock.
"""

from collections import deque
from fractions import Fraction
from typing import Final

from media.codecs.avc import AvcConfig, AvcError
from media.codecs.sei import is_rotated
from media.hls.fmp4 import video_init
from media.ladder import Ladder, Rendition
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoCodec, VideoTrack
from transcode.engine.core.clock import Clock
from transcode.engine.core.reports import Outlet
from transcode.engine.input.random_access import Access, Accesses, alike
from transcode.engine.live.live_posters import Source as Posing
from transcode.engine.live.video_pipeline import Pictures
from transcode.protocol.messages import Begin, Packet

__all__ = ["MOST_RATE", "Source"]

# A source with more frames a second is thinned, which its own packets cannot be.
MOST_RATE: Final = 60
# Some encoders put their clock where the frame rate belongs: 1 000 or 45 000 frames a second.
_BELIEVED_RATE: Final = 240
# FLV's composition time reaches hours; no encoder reorders by more than a second.
_MOST_REORDER: Final = 5  # seconds
# Sound that came before the first keyframe may belong to its time: about 1.5 s of it is kept.
_EARLY_SOUND: Final = 64
# How far the sound may be ahead before the last picture is shown again; see `audio` for the other
# way round. Encoders send both in the order of their times, give or take a few frames; for one that
# does not the wait grows, up to what sound can be held back without a player's noticing.
_PATIENCE: Final = VIDEO_SCALE
_MOST_PATIENCE: Final = 4 * VIDEO_SCALE
# How long a picture is shown where nothing says it: a frame of 30 a second. What is longer than a
# tenth is a hole, which the source that follows need not repeat.
_STEP: Final = VIDEO_SCALE // 30
_MOST_STEP: Final = VIDEO_SCALE // 10
# The octets of hvcC that say how a picture is coded: profile; chroma format and the two bit depths
# (14496-15, 8.3.3.1).
_HEVC_KIND: Final = (slice(1, 2), slice(16, 19))


class Source:
    """What one `Begin` announced; `number` is its epoch.

    `frames` counts the pictures taken, `taken` is the newest packet's time in the source's own
    milliseconds. `foreign` says that it shows what its configuration does not say. `step` is how
    long its newest picture is shown.
    """

    def __init__(self, begin: Begin, outlet: Outlet) -> None:
        self.number = begin.epoch
        self.video = begin.video
        self.audio = begin.audio
        self.frames = 0
        self.taken = 0
        self.foreign = False
        self.step = _STEP
        self.clock: Clock | None = None
        self.early: deque[Packet] = deque(maxlen=_EARLY_SOUND)
        self._reuse = begin.reuse
        self._longest = begin.longest
        self._outlet = outlet
        self.config = self._parsed(begin.video)
        self.rate = _believed(self.config)
        self._accesses = Accesses(begin.video, self.config) if begin.video else None
        self._waits_since: int | None = None
        self._entry: int | None = None  # its time, until a picture follows that is shown after it
        self._heard = 0
        self._patience = _PATIENCE
        self._last: int | None = None

    @property
    def aspect(self) -> Fraction:
        """A pixel's width by its height, as far as the configuration says."""
        return self.config.aspect if self.config is not None else Fraction(1)

    @property
    def kind(self) -> tuple[object, ...] | None:
        """What must be equal for encoders that were opened for one source to fit the other.

        They keep the colours of the first picture that they were given. No configuration says all
        of those, but encoders that feed one stream are set alike: with the same codec, size,
        sampling and depth the colours are taken to be the same.
        """
        track = self.video
        if track is None:
            return None
        coding: tuple[object, ...] = (track.config,)
        if self.config is not None:
            coding = (self.config.chroma_format, self.config.bit_depth)
        elif track.codec is VideoCodec.HEVC:
            coding = tuple(track.config[place] for place in _HEVC_KIND)
        return (track.codec, track.width, track.height, *coding)

    @property
    def pictures(self) -> Pictures | None:
        """What a decoder has to know of it; None where it has no picture."""
        track = self.video
        if track is None:
            return None
        known = self.config is None or self.config.reorder is not None
        return Pictures(track=track, order_known=known, aspect=self.aspect, rate=self.rate)

    @property
    def init(self) -> tuple[str, bytes] | None:
        """Its own coding and init section, if packets of its are lent."""
        track, config = self.video, self.config
        if track is None or config is None:
            return None
        size, aspect = (config.width, config.height), config.aspect
        data = video_init(config=track.config, width=size[0], height=size[1], aspect=aspect)
        return config.codecs, data

    def posing(self, rungs: tuple[Rendition, ...], every: int) -> Posing | None:
        """What posters are made of it; None where it has no picture."""
        if self.video is None:
            return None
        return Posing(track=self.video, aspect=self.aspect, rungs=rungs, every=every)

    def lends(self, ladder: Ladder | None) -> Rendition | None:
        """Return the rendition that its own packets can make, if they can."""
        config = self.config
        fits = (
            self._reuse
            and config is not None
            and config.plays_everywhere
            and (self.rate or 0) <= MOST_RATE + 1
        )
        if not fits or config is None or ladder is None or not ladder.renditions[0].source_size:
            return None
        top = ladder.renditions[0]
        # A run that keeps its renditions while the source's size changes has another size here.
        return top if (top.width, top.height) == (config.width, config.height) else None

    def begin(self, first: int, scale: int, origin: int) -> Clock:
        """Place the leading track's first time at `origin`; return the clock that does it."""
        self.clock = Clock(first=first, scale=scale, origin=origin)
        self._heard = origin
        return self.clock

    # -- picture ----------------------------------------------------------------------------------

    def access(self, packet: Packet, track: VideoTrack) -> Access | None:
        """Say how a picture can be come to; None where it is none at all or of no use."""
        if not packet.data or self._accesses is None:
            return None
        try:
            access = self._accesses.of(packet.data, key=packet.key)
        except AvcError as error:
            self._outlet.trouble("packet not parsed", error)
            return None
        if not self._is_awaited(packet, access, track):
            return None
        reorder = abs(packet.pts - packet.dts)
        if reorder > _MOST_REORDER * track.scale:
            self._outlet.trouble("picture with an absurd time", reorder)
            return None
        return access

    def place(self, packet: Packet, clock: Clock, track: VideoTrack) -> tuple[int, int]:
        """Count a picture; return its decode and presentation time."""
        if clock.lead(packet.dts, track.scale):
            self._outlet.trouble("clock jumped", packet.dts)
        dts, pts = clock.place(packet.dts, track.scale), clock.place(packet.pts, track.scale)
        if self._last is not None and dts > self._last:
            self.step = min(dts - self._last, _MOST_STEP)
        self._last = dts
        self.frames += 1
        self.taken = rescale(packet.pts, track.scale, MILLISECONDS)
        wait = min(self._heard - pts + _PATIENCE, _MOST_PATIENCE)
        self._patience = max(self._patience, wait)
        return dts, pts

    def is_own(self, packet: Packet, access: Access) -> bool:
        """Say whether the packets can make the top rung from this one on."""
        config = self.config
        if config is None:
            return True
        if access is Access.ENTRY:
            turned = is_rotated(packet.data, config.length_size)
            self.foreign = turned or not alike(packet.data, config)
            return not self.foreign
        return self._entry is None  # who came in at a keyframe that is none gets no copy

    def _is_awaited(self, packet: Packet, access: Access, track: VideoTrack) -> bool:
        """Leave out what comes before the first entry, in time or in showing order."""
        if self.clock is None:
            self._waits_since = packet.dts if self._waits_since is None else self._waits_since
            waited = rescale(packet.dts - self._waits_since, track.scale, VIDEO_SCALE)
            if access is Access.OTHER or (access is Access.KEY and waited < self._longest):
                return False
            self._entry = packet.pts
        elif self._entry is not None:
            if packet.pts < self._entry:
                return False
            self._entry = None
        return True

    # -- sound ------------------------------------------------------------------------------------

    def hear(self, pts: int) -> int:
        """Take the sound's newest time; return up to when no picture is waited for any more."""
        # The lower of two: a single absurd stamp must not stop the picture for seconds.
        until = min(pts, self._heard) - self._patience
        self._heard = pts
        return until

    def _parsed(self, track: VideoTrack | None) -> AvcConfig | None:
        if track is None or track.codec is not VideoCodec.AVC:
            return None
        try:
            return AvcConfig.parse(track.config)
        except AvcError as error:
            self._outlet.trouble("decoder configuration not parsed", error)
            return None


def _believed(config: AvcConfig | None) -> Fraction | None:
    """Return the frame rate that a source claims, unless it is none."""
    rate = config.frame_rate if config is not None else None
    return rate if rate is not None and 1 <= rate <= _BELIEVED_RATE else None
