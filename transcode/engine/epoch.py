"""One source's stay on air: its packets in, the renditions' samples out.

Called by one thread. The source's own packets and the sound are dealt with at once, on it; pictures
that are to be decoded go to `picture.Decoding`. Everything that decides (first keyframe, clock,
cuts) is decided here, from the packets in the order in which they come.
"""

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from media.avc import AvcConfig, AvcError, is_idr
from media.fmp4 import Sample, video_init
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoCodec, VideoTrack
from transcode.engine.audio import Sound
from transcode.engine.clock import JUMP, Clock
from transcode.engine.cut import Track
from transcode.engine.grid import Cut, Grid
from transcode.engine.outlet import Outlet
from transcode.engine.picture import Coded, Decoding
from transcode.engine.rung import Rung
from transcode.wire import Begin, Finished, Packet, Prepared

__all__ = ["Epoch"]

# A source with more frames a second is thinned, which its own packets cannot be.
_MOST_RATE: Final = 60
# Some encoders put their clock where the frame rate belongs: 1 000 or 45 000 frames a second.
_BELIEVED_RATE: Final = 240
# FLV's composition time reaches hours; no encoder reorders by more than a second.
_MOST_REORDER: Final = 5  # seconds
# Sound that came before the first keyframe may belong to its time: about 1.5 s of it is kept.
_EARLY_SOUND: Final = 64


class Epoch:
    """Makes one `Begin` out; `track_of` gives a rendition's track, `origin` and `sequence` follow
    the run.
    """

    def __init__(
        self,
        begin: Begin,
        *,
        origin: int,
        sequence: int,
        discontinuity: bool,
        track_of: Callable[[str], Track],
        outlet: Outlet,
    ) -> None:
        self.number = begin.epoch
        self.frames = 0
        self.taken = 0
        self._begin = begin
        self._origin = origin
        self._outlet = outlet
        self._track_of = track_of
        self._config = self._parsed(begin.video)
        ladder = begin.ladder.renditions if begin.ladder and begin.video else ()
        self._rungs = ladder
        self._rate = _believed(self._config)
        self._reused = self._reusable(ladder)
        self._copy: Track | None = None
        self._clock: Clock | None = None
        self._decoding: Decoding | None = None
        self._encoders: list[Rung] = []
        self._undecoded: list[Coded] = []
        self._off = frozenset(begin.off)
        self._early: deque[Packet] = deque(maxlen=_EARLY_SOUND)
        self._tracks: list[Track] = []
        self._grid = Grid(
            sequence=sequence,
            discontinuity=discontinuity,
            cut=begin.cut,
            longest=begin.longest,
            reuse=self._reused is not None,
        )
        names = (*(rung.name for rung in ladder), AUDIO_RENDITION)
        reused = self._reused.name if self._reused else None
        outlet.send(Prepared(epoch=begin.epoch, names=names, reused=reused))
        self._sound = Sound(
            begin.audio, self._opened(AUDIO_RENDITION), origin=origin, outlet=outlet
        )

    @property
    def sequence(self) -> int:
        """The number of the segment that follows the epoch's newest."""
        return self._grid.sequence

    @property
    def made(self) -> int:
        """How far the slowest rendition is, in the source's milliseconds."""
        slowest = min((track.made for track in self._tracks), default=0)
        if self._clock is None or not slowest:
            return 0
        return rescale(slowest - self._clock.place(0, 1), VIDEO_SCALE, MILLISECONDS)

    def take(self, packet: Packet) -> None:
        """Take the source's next packet."""
        begin = self._begin
        if packet.video:
            if begin.video is not None and self._rungs:
                self._take_picture(packet, begin.video)
        elif begin.audio is not None:
            self._take_sound(packet, begin.audio.scale)

    def shed(self, off: tuple[str, ...]) -> None:
        """Leave the rungs in `off` out from the next cut on, and make all others."""
        self._off = frozenset(off)

    def finish(self) -> Finished:
        """Make everything out of what came; return the epoch's sums."""
        ends: list[int] = []
        if self._copy is not None and (end := self._copy.end()) is not None:
            ends.append(end)
        if self._decoding is not None:
            self._decoding.finish()
            ends += [rung.end for rung in self._encoders if rung.end is not None]
        elif self._encoders:
            self._encoders[0].finish()
        end = max(ends, default=None)
        if self._clock is not None:
            sound = self._sound.finish(end if self._rungs else None, self._grid)
            end = max(end or 0, sound or 0)
        return Finished(
            epoch=self.number,
            end=self._origin if end is None else end,
            frames_in=self.frames,
            frames_out={track.name: track.frames for track in self._tracks},
        )

    # -- picture ----------------------------------------------------------------------------------

    def _take_picture(self, packet: Packet, track: VideoTrack) -> None:
        idr = self._is_idr(packet, track)
        if idr is None or (self._clock is None and not idr):
            return
        reorder = abs(packet.pts - packet.dts)
        if reorder > _MOST_REORDER * track.scale:
            self._outlet.trouble("picture with an absurd time", reorder)
            return
        clock = self._clock or self._start(packet.pts, track.scale)
        if clock.lead(packet.dts, track.scale):
            self._outlet.trouble("clock jumped", packet.dts)
        dts, pts = clock.place(packet.dts, track.scale), clock.place(packet.pts, track.scale)
        self.frames += 1
        self.taken = rescale(packet.pts, track.scale, MILLISECONDS)
        cut = self._grid.offer(pts, idr=idr)
        if cut is not None:
            self._turn(cut, dts)
        if self._copy is not None:
            own = cut if cut is not None and not cut.takeover else None
            self._copy.add(Sample(dts, pts, 0, idr, packet.data), own)
        self._decode_later((packet.data, dts, pts), idr=idr)
        while self._early and self._begin.audio is not None:
            self._take_sound(self._early.popleft(), self._begin.audio.scale)
        self._sound.reach(dts if self._begin.audio is not None else self._grid.newest)
        self._sound.release(self._grid.newest)

    def _turn(self, cut: Cut, dts: int) -> None:
        """Let all renditions know of a cut before the packet that brought it about."""
        if cut.takeover and self._copy is not None:
            # The encoder's thread goes on with the track from here.
            self._copy.pause(dts)
            self._copy = None
            if self._decoding is None and self._begin.video is not None:
                self._decoding = self._decode(self._begin.video, [], self._encoders[0])
                for coded in self._undecoded:
                    self._decoding.put(coded)
                self._undecoded.clear()
        if self._decoding is not None:
            self._decoding.put(cut)
        self._sound.cut(cut)

    def _decode_later(self, coded: Coded, *, idr: bool) -> None:
        """Have a picture decoded; where no rung needs it, only once the encoder takes over."""
        if self._decoding is not None:
            self._decoding.put(coded)
            return
        if idr:
            self._undecoded.clear()
        self._undecoded.append(coded)

    def _is_idr(self, packet: Packet, track: VideoTrack) -> bool | None:
        """Say whether decoding can begin with a picture; None where it is none at all."""
        if not packet.data:
            return None
        if track.codec is not VideoCodec.AVC or self._config is None:
            return packet.key
        try:
            return is_idr(packet.data, self._config.length_size)
        except AvcError as error:
            self._outlet.trouble("packet not parsed", error)
            return None

    # -- sound ------------------------------------------------------------------------------------

    def _take_sound(self, packet: Packet, scale: int) -> None:
        clock = self._clock
        if clock is None:
            if self._rungs:
                self._early.append(packet)
                return
            clock = self._start(packet.pts, scale)
        if not self._rungs:
            if clock.lead(packet.pts, scale):
                self._outlet.trouble("clock jumped", packet.pts)
            self.taken = rescale(packet.pts, scale, MILLISECONDS)
        pts = clock.place(packet.pts, scale)
        if self._rungs and pts > self._grid.newest + JUMP:
            self._outlet.trouble("sound far ahead of the picture", pts - self._grid.newest)
            return
        self._sound.take(packet.data, pts)
        if self._rungs:
            self._sound.release(self._grid.newest)
        else:
            self._sound.cut_by(self._grid)

    # -- beginning --------------------------------------------------------------------------------

    def _parsed(self, track: VideoTrack | None) -> AvcConfig | None:
        if track is None or track.codec is not VideoCodec.AVC:
            return None
        try:
            return AvcConfig.parse(track.config)
        except AvcError as error:
            self._outlet.trouble("decoder configuration not parsed", error)
            return None

    def _reusable(self, ladder: tuple[Rendition, ...]) -> Rendition | None:
        config = self._config
        fits = (
            self._begin.reuse
            and config is not None
            and config.plays_everywhere
            and (self._rate or 0) <= _MOST_RATE + 1
        )
        return ladder[0] if fits and ladder and ladder[0].source_size else None

    def _start(self, first: int, scale: int) -> Clock:
        """Open the pictures' renditions: the source's leading track begins."""
        clock = self._clock = Clock(first=first, scale=scale, origin=self._origin)
        if self._begin.video is not None and self._rungs:
            self._start_pictures(self._begin.video)
        return clock

    def _start_pictures(self, track: VideoTrack) -> None:
        config = self._config
        rate = self._rate and min(self._rate, Fraction(_MOST_RATE))
        rungs = [
            Rung(rendition, self._opened(rendition.name), self._outlet, rate)
            for rendition in self._rungs
        ]
        self._encoders = rungs
        if self._reused is None or config is None:
            self._decoding = self._decode(track, rungs, None)
            return
        heir, rungs = rungs[0], rungs[1:]
        self._copy = heir.track
        self._copy.describe(
            config.codecs,
            video_init(
                config=track.config,
                width=config.width,
                height=config.height,
                aspect=config.aspect,
            ),
        )
        if rungs:
            self._decoding = self._decode(track, rungs, heir)

    def _decode(self, track: VideoTrack, rungs: list[Rung], heir: Rung | None) -> Decoding:
        config = self._config
        return Decoding(
            track,
            order_known=config is None or config.reorder is not None,
            aspect=config.aspect if config is not None else Fraction(1),
            rate=self._rate,
            rungs=rungs,
            heir=heir,
            outlet=self._outlet,
        )

    def _opened(self, name: str) -> Track:
        track = self._track_of(name)
        track.begin(epoch=self.number, part=self._begin.part)
        self._tracks.append(track)
        return track


def _believed(config: AvcConfig | None) -> Fraction | None:
    """Return the frame rate that a source claims, unless it is none."""
    rate = config.frame_rate if config is not None else None
    return rate if rate is not None and 1 <= rate <= _BELIEVED_RATE else None
