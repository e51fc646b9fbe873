"""What viewers get from one beginning on: packets in, the renditions' samples out.

Called by one thread. The source's own packets and the sound are dealt with at once, on it; pictures
that are to be decoded go to `picture.Decoding`. Everything that decides (first keyframe, clock,
cuts) is decided here and in `source`, from the packets in the order in which they come. One source
may follow another in it (`splice`) where nothing changes that players hold; between two of them, or
before any, a slate may stand (`slate`, `reach`).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

from media.hls.fmp4 import Sample
from media.ladder import AUDIO_RENDITION, Ladder
from media.ticks import MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoTrack
from transcode.engine.codec.decode import Decoders
from transcode.engine.core.clock import JUMP, Clock
from transcode.engine.core.reports import Outlet
from transcode.engine.input.random_access import Access, same_sets
from transcode.engine.live.audio_pipeline import Sound
from transcode.engine.live.live_posters import Stills
from transcode.engine.live.rendition_encoder import Rung
from transcode.engine.live.shedding import left_out
from transcode.engine.live.slate import owners
from transcode.engine.live.source import MOST_RATE, Source
from transcode.engine.live.video_pipeline import Coded, Decoding, Slate, Still
from transcode.engine.output.segment_grid import HOLE, Cut, Grid
from transcode.engine.output.segmenter import Track
from transcode.protocol.messages import Begin, Finished, Packet, Prepared, Spliced, TakenOver

__all__ = ["Epoch"]

# For so long the last picture is shown before the slate: most encoders that come back at once do so
# by then.
_LAST_PICTURE: Final = 2 * VIDEO_SCALE


class Epoch:
    """Makes one `Begin` out, and those that are spliced to it; `track_of` gives a rendition's
    track, `origin` and `sequence` follow the run.
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
        stills: Stills | None = None,
    ) -> None:
        self.number = begin.epoch
        self._stills = stills if begin.poster else None
        self._begin = begin
        self._origin = origin  # where the source's first picture belongs
        self._outlet = outlet
        self._track_of = track_of
        self._decoders = decoders
        self._source = Source(begin, outlet)
        self._frames = 0  # of the sources before
        self._rungs = begin.ladder.renditions if begin.ladder else ()
        self._reused = self._source.lends(begin.ladder) if self._rungs else None
        self._kind = self._source.kind
        self._started = False
        self._slate_from: int | None = None  # where the slate begins that is on
        self._copy: Track | None = None
        self._described = False
        self._decoding: Decoding | None = None
        self._encoders: list[Rung] = []
        self._decoded = False
        self._undecoded: list[Coded] = []
        self._off = frozenset(begin.off)
        self._given_up: frozenset[str] = frozenset()  # since the last cut
        self._tracks: list[Track] = []
        self._grid = Grid(
            sequence=sequence,
            discontinuity=discontinuity,
            cut=begin.cut,
            longest=begin.longest,
            reuse=self._reused is not None,
        )
        names = (*(rung.name for rung in self._rungs), AUDIO_RENDITION)
        outlet.send(Prepared(epoch=begin.epoch, names=names, reused=self._lent))
        self._sound = Sound(
            begin.audio,
            self._opened(AUDIO_RENDITION),
            origin=origin,
            outlet=outlet,
            decoders=decoders,
        )

    @property
    def source(self) -> Source:
        """The source that is on."""
        return self._source

    @property
    def sequence(self) -> int:
        """The number of the segment that follows the epoch's newest."""
        return self._grid.sequence

    @property
    def made(self) -> int:
        """How far the slowest rendition is, in the source's milliseconds."""
        clock = self._source.clock
        slowest = min((track.made for track in self._tracks if not track.missing), default=0)
        if clock is None or not slowest:
            return 0
        return rescale(slowest - clock.place(0, 1), VIDEO_SCALE, MILLISECONDS)

    def take(self, packet: Packet) -> None:
        """Take the source's next packet."""
        source = self._source
        if packet.video:
            if source.video is not None and self._rungs:
                self._take_picture(packet, source, source.video)
        elif source.audio is not None:
            self._take_sound(packet, source, source.audio.scale)

    def splice(self, begin: Begin) -> bool:
        """Go on with another source where this one ends; False where it cannot be the same epoch.

        What players hold must stay as it is. So either both sources lend their packets to the top
        rung, with the same parameter sets, or neither does and the encoders fit the new one too.
        """
        source = Source(begin, self._outlet)
        if not self._fits(source, begin.ladder):
            return False
        self._origin = self._reached()
        self._slate_from = None
        self._replace(source)
        self._grid.splice()
        self._undecoded.clear()
        if self._decoding is not None and source.pictures is not None:
            self._decoding.put(source.pictures)
        self._outlet.send(Spliced(epoch=begin.epoch, reused=self._lent))
        return True

    def slate(self, picture: bytes | None) -> None:
        """Let the source go; show its last picture, then a slate, as far as `reach` says."""
        if self._slate_from is not None:
            return
        at = self._slate_from = self._reached() if self._started else self._origin
        nobody = msgspec.structs.replace(self._begin, video=None, audio=None)
        if self._rungs:
            if not self._started:
                # The encoders are opened for the slate's colours, which no source's need be.
                self._kind = self._reused = None
                self._start_pictures()
            for cut in self._grid.leave(at):
                self._turn(cut, told=False)
            if self._decoding is not None:
                self._decoding.put(Slate(at + _LAST_PICTURE, owners(picture, self._outlet)))
        self._started = True
        self._replace(Source(nobody, self._outlet))

    def reach(self, elapsed: int) -> None:
        """Show the slate up to `elapsed` ticks from where it began."""
        if self._slate_from is None:
            return
        until = self._slate_from + elapsed
        if self._decoding is not None:
            for cut in self._grid.reach(until):
                self._decoding.put(Still(cut.at - 1))
                self._turn(cut)
            self._decoding.put(Still(until))
        self._sound.reach(until)
        if self._rungs:
            self._sound.release(self._grid.newest)
        else:
            self._sound.cut_by(self._grid)

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
        if self._started:
            sound = self._sound.finish(end if self._rungs else None, self._grid)
            end = max(end or 0, sound or 0)
        return Finished(
            epoch=self.number,
            end=self._origin if end is None else end,
            frames_in=self._frames + self._source.frames,
            frames_out={track.name: track.frames for track in self._tracks},
        )

    def _replace(self, source: Source) -> None:
        self._frames += self._source.frames
        self._source = source
        self._sound.splice(source.audio)

    # -- picture ----------------------------------------------------------------------------------

    def _take_picture(self, packet: Packet, source: Source, track: VideoTrack) -> None:
        access = source.access(packet, track)
        if access is None:
            return
        clock = source.clock or self._start(source, packet.pts, track.scale)
        dts, pts = source.place(packet, clock, track)
        entry = access is Access.ENTRY
        own = self._copy is None or source.is_own(packet, access)
        cuts = self._grid.offer(pts, idr=entry, own=own)
        for cut in cuts:
            self._turn(cut, dts)
        if self._copy is not None:
            # A source that was spliced in has the same sets, if not the same record around them.
            if cuts and not self._described and (init := source.init) is not None:
                self._described = True
                self._copy.describe(*init)
            self._copy.add(Sample(dts, pts, 0, entry, packet.data), cuts[0] if cuts else None)
        self._decode((packet.data, dts, pts), entry=entry)
        posing = source.posing(self._rungs, self._begin.poster)
        if access is not Access.OTHER and posing is not None and self._stills is not None:
            self._stills.offer(posing, packet.data, pts)
        while source.early and source.audio is not None:
            self._take_sound(source.early.popleft(), source, source.audio.scale)
        self._sound.reach(dts if source.audio is not None else self._grid.newest)
        self._sound.release(self._grid.newest)

    def _turn(self, cut: Cut, dts: int | None = None, *, told: bool = True) -> None:
        """Let all renditions know of a cut before the packet that brought it about.

        `dts` is that packet's, None where there is none: the last picture stands up to the cut.
        `told` says that it is told where the encoder takes over: for want of what a source should
        have sent.
        """
        if cut.takeover and self._copy is not None:
            # The encoder's thread goes on with the track from here.
            if dts is not None and dts - cut.at <= HOLE:
                self._copy.pause(dts)
            else:
                self._copy.pause(cut.at, cut.at)
            self._copy = None
            source = self._source
            if told:
                self._outlet.send(TakenOver(epoch=source.number, for_good=source.foreign))
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

    # -- sound ------------------------------------------------------------------------------------

    def _take_sound(self, packet: Packet, source: Source, scale: int) -> None:
        clock = source.clock
        if clock is None:
            if self._rungs:
                source.early.append(packet)
                return
            clock = self._start(source, packet.pts, scale)
        if not self._rungs:
            if clock.lead(packet.pts, scale):
                self._outlet.trouble("clock jumped", packet.pts)
            source.taken = rescale(packet.pts, scale, MILLISECONDS)
        pts = clock.place(packet.pts, scale)
        if self._rungs and pts > self._grid.newest + JUMP:
            self._outlet.trouble("sound far ahead of the picture", pts - self._grid.newest)
            return
        self._sound.take(packet.data, pts)
        if self._rungs:
            self._pass_by(source.hear(pts), clock)
            self._sound.release(self._grid.newest)
        else:
            self._sound.cut_by(self._grid)

    def _pass_by(self, until: int, clock: Clock) -> None:
        """Let the picture stand still up to `until`: the sound does not wait for it any more."""
        for cut in self._grid.reach(until):
            self._turn(cut)
        if self._grid.still and self._decoding is not None:
            clock.follow(until)
            self._decoding.put(Still(until))

    # -- beginning --------------------------------------------------------------------------------

    @property
    def _lent(self) -> str | None:
        """The rendition that the source's own packets make, or will."""
        if self._reused is None or (self._started and self._copy is None):
            return None
        return self._reused.name

    def _fits(self, source: Source, ladder: Ladder | None) -> bool:
        """Say whether a source can go on without anything that players would have to be told."""
        rungs = ladder.renditions if ladder is not None and source.video is not None else ()
        if not self._started or self._decoders is not None:
            return False
        same = [(rung.name, rung.width, rung.height) for rung in rungs]
        if same != [(rung.name, rung.width, rung.height) for rung in self._rungs]:
            return False
        if not rungs:
            return True
        lends = source.lends(ladder) is not None
        if self._copy is None:
            return not lends and source.kind == self._kind
        return lends and same_sets(self._source.config, source.config)

    def _reached(self) -> int:
        """Return where what was taken ends, whichever of the picture and the sound leads."""
        if not self._rungs:
            return self._sound.end
        if self._slate_from is not None:
            return max(self._slate_from, self._grid.newest + 1)
        # What stands still is shown again up to the newest time there is.
        return self._grid.newest + (1 if self._grid.still else self._source.step)

    def _start(self, source: Source, first: int, scale: int) -> Clock:
        """Let the source's leading track begin, and with the first source the renditions."""
        clock = source.begin(first, scale, self._origin)
        if not self._started and self._rungs:
            self._start_pictures()
        self._started = True
        return clock

    def _start_pictures(self) -> None:
        source = self._source
        rate = source.rate and min(source.rate, Fraction(MOST_RATE))
        rungs = [
            Rung(rendition, self._opened(rendition.name), self._outlet, rate)
            for rendition in self._rungs
        ]
        self._encoders = rungs
        heir: Rung | None = None
        if self._reused is not None:
            heir, rungs = rungs[0], rungs[1:]
            self._copy = heir.track
        self._decoding = Decoding(
            source.pictures,
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
