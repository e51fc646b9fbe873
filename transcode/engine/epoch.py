"""One source's stay on air: its packets in, the renditions' samples out.

Called by one thread. The source's own packets and the sound are dealt with at once, on it; pictures
that are to be decoded go to `picture.Decoding`. Everything that decides (first keyframe, clock,
cuts) is decided here, from the packets in the order in which they come.
"""

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

from media.avc import AvcConfig, AvcError
from media.fmp4 import Sample, video_init
from media.ladder import AUDIO_RENDITION, Rendition
from media.sei import is_turned
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoCodec, VideoTrack
from transcode.engine.access import Access, Accesses, alike
from transcode.engine.audio import Sound
from transcode.engine.clock import JUMP, Clock
from transcode.engine.cut import Track
from transcode.engine.decode import Decoders
from transcode.engine.grid import HOLE, Cut, Grid
from transcode.engine.outlet import Outlet
from transcode.engine.picture import Coded, Decoding, Still
from transcode.engine.rung import Rung
from transcode.engine.shed import left_out
from transcode.wire import Begin, Finished, Packet, Prepared, TakenOver

__all__ = ["Epoch"]

# A source with more frames a second is thinned, which its own packets cannot be.
_MOST_RATE: Final = 60
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
        decoders: Decoders | None = None,
    ) -> None:
        self.number = begin.epoch
        self._decoders = decoders
        self.frames = 0
        self.taken = 0
        self._begin = begin
        self._origin = origin
        self._outlet = outlet
        self._track_of = track_of
        self._config = self._parsed(begin.video)
        self._accesses = Accesses(begin.video, self._config) if begin.video else None
        self._waits_since: int | None = None
        self._entry: int | None = None  # its time, until a picture follows that is shown after it
        ladder = begin.ladder.renditions if begin.ladder and begin.video else ()
        self._rungs = ladder
        self._rate = _believed(self._config)
        self._reused = self._reusable(ladder)
        self._copy: Track | None = None
        self._clock: Clock | None = None
        self._decoding: Decoding | None = None
        self._encoders: list[Rung] = []
        self._decoded = False
        self._undecoded: list[Coded] = []
        self._foreign = False  # whether the source shows what its configuration does not say
        self._heard = origin
        self._patience = _PATIENCE
        self._off = frozenset(begin.off)
        self._given_up: frozenset[str] = frozenset()  # since the last cut
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
            begin.audio,
            self._opened(AUDIO_RENDITION),
            origin=origin,
            outlet=outlet,
            decoders=decoders,
        )

    @property
    def sequence(self) -> int:
        """The number of the segment that follows the epoch's newest."""
        return self._grid.sequence

    @property
    def made(self) -> int:
        """How far the slowest rendition is, in the source's milliseconds."""
        slowest = min((track.made for track in self._tracks if not track.missing), default=0)
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
        """Leave the rungs in `off` out, and make all others from the next cut on."""
        self._off = frozenset(off)
        if self._decoding is None:
            return
        gone = self._left_out()[0]
        if self._copy is not None:
            # Where nothing is decoded any more, nothing can come back before the next cut.
            gone |= self._given_up
        self._given_up = gone
        self._decoding.give_up(gone, self._grid.sequence)

    def finish(self) -> Finished:
        """Make everything out of what came; return the epoch's sums."""
        ends: list[int] = []
        if self._copy is not None and (end := self._copy.end()) is not None:
            ends.append(end)
        if self._decoding is not None:
            self._decoding.finish()
        ends += [rung.end for rung in self._encoders if rung.end is not None]
        end = max(ends, default=None)
        for rung in self._encoders:
            if rung.track.missing:
                rung.track.end(end or 0)
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
        access = self._access(packet, track)
        if access is None:
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
        wait = min(self._heard - pts + _PATIENCE, _MOST_PATIENCE)
        self._patience = max(self._patience, wait)
        entry = access is Access.ENTRY
        cuts = self._grid.offer(pts, idr=entry, own=self._is_own(packet, access))
        for cut in cuts:
            self._turn(cut, dts)
        if self._copy is not None:
            if cuts:
                self._describe(self._copy, track)
            self._copy.add(Sample(dts, pts, 0, entry, packet.data), cuts[0] if cuts else None)
        self._decode((packet.data, dts, pts), entry=entry)
        while self._early and self._begin.audio is not None:
            self._take_sound(self._early.popleft(), self._begin.audio.scale)
        self._sound.reach(dts if self._begin.audio is not None else self._grid.newest)
        self._sound.release(self._grid.newest)

    def _turn(self, cut: Cut, dts: int) -> None:
        """Let all renditions know of a cut before the packet that brought it about."""
        if cut.takeover and self._copy is not None:
            # The encoder's thread goes on with the track from here.
            self._copy.pause(dts if dts - cut.at <= HOLE else cut.at)
            self._copy = None
            self._outlet.send(TakenOver(epoch=self.number, for_good=self._foreign))
        off, self._decoded = self._left_out()
        self._given_up = frozenset()
        cut = msgspec.structs.replace(cut, off=off, decoded=self._decoded)
        if self._decoding is not None:
            if cut.takeover:  # it comes between two entries: what decoding it needs was kept
                for coded in self._undecoded:
                    self._decoding.put(coded)
            self._decoding.put(cut)
        self._undecoded.clear()
        self._sound.cut(cut)

    def _left_out(self) -> tuple[frozenset[str], bool]:
        """Return which encoded rungs are not made, and whether any is."""
        own = self._copy is not None
        encoded = tuple(rung.name for rung in self._rungs[1 if own else 0 :])
        off = left_out(encoded, self._off, own=own)
        return off, len(off) < len(encoded)

    def _decode(self, coded: Coded, *, entry: bool) -> None:
        """Have a picture decoded; where no rung needs it, only if the encoder takes over."""
        if self._decoded and self._decoding is not None:
            self._decoding.put(coded)
            return
        if entry:
            self._undecoded.clear()
        self._undecoded.append(coded)

    def _access(self, packet: Packet, track: VideoTrack) -> Access | None:
        """Say how a picture can be come to; None where it is none at all or of no use."""
        if not packet.data or self._accesses is None:
            return None
        try:
            access = self._accesses.of(packet.data, key=packet.key)
        except AvcError as error:
            self._outlet.trouble("packet not parsed", error)
            return None
        if self._clock is None:
            self._waits_since = packet.dts if self._waits_since is None else self._waits_since
            waited = rescale(packet.dts - self._waits_since, track.scale, VIDEO_SCALE)
            if access is Access.OTHER or (access is Access.KEY and waited < self._begin.longest):
                return None
            self._entry = packet.pts
        elif self._entry is not None:
            if packet.pts < self._entry:
                return None
            self._entry = None
        return access

    def _describe(self, copy: Track, track: VideoTrack) -> None:
        """Send the source's own configuration, once a segment will need it."""
        if (config := self._config) is not None:
            size, aspect = (config.width, config.height), config.aspect
            init = video_init(config=track.config, width=size[0], height=size[1], aspect=aspect)
            copy.describe(config.codecs, init)

    def _is_own(self, packet: Packet, access: Access) -> bool:
        """Say whether the source's packets can make the top rung from this one on."""
        if self._copy is None or self._config is None:
            return True
        if access is Access.ENTRY:
            config = self._config
            turned = is_turned(packet.data, config.length_size)
            self._foreign = turned or not alike(packet.data, config)
            return not self._foreign
        return self._entry is None  # who came in at a keyframe that is none gets no copy

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
            self._pass_by(pts)
            self._sound.release(self._grid.newest)
        else:
            self._sound.cut_by(self._grid)

    def _pass_by(self, pts: int) -> None:
        """Let the picture stand still where the sound, which is at `pts`, does not wait for it."""
        # The lower of two: a single absurd stamp must not stop the picture for seconds.
        until = min(pts, self._heard) - self._patience
        self._heard = pts
        for cut in self._grid.reach(until):
            self._turn(cut, cut.at)
        if self._grid.still and self._clock is not None and self._decoding is not None:
            self._clock.follow(until)
            self._decoding.put(Still(until))

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
        if not fits or config is None or not ladder or not ladder[0].source_size:
            return None
        # A run that keeps its renditions while the source's size changes has another size here.
        same = (ladder[0].width, ladder[0].height) == (config.width, config.height)
        return ladder[0] if same else None

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
            self._decoding = self._decoding_of(track, rungs, None)
            return
        heir, rungs = rungs[0], rungs[1:]
        self._copy = heir.track
        self._decoding = self._decoding_of(track, rungs, heir)

    def _decoding_of(self, track: VideoTrack, rungs: list[Rung], heir: Rung | None) -> Decoding:
        config = self._config
        return Decoding(
            track,
            order_known=config is None or config.reorder is not None,
            aspect=config.aspect if config is not None else Fraction(1),
            rate=self._rate,
            rungs=rungs,
            heir=heir,
            outlet=self._outlet,
            decoders=self._decoders,
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
