"""The pipeline of one epoch: packets in, the renditions' samples out.

    packets --> LiveSource --> SegmentGrid --+--> top rendition: the source's own packets (`_copy`)
                usable? when   cuts          |
                on the output                +--> VideoPipeline: decoder and scaler on one thread,
                clock?                       |    an encoder for each other rendition on its own
                                             |
                                             '--> AudioPipeline: decoded and encoded at once

An epoch is what players get between two discontinuities: its times go on without a jump. Usually it
is one source. Another may follow it (`splice`) if the renditions are the same and the encoders fit
the new source. The same source may change its sound or its clock (`continue_source`). Where these
return False, `LiveSession` finishes the epoch and opens another.

    opened --- first packet to be shown ---> source <---.
       |                                     |  ^  ^    | splice,
       |                          show_slate |  |  '----' continue_source
       |                                     v  | splice
       '------------ show_slate ----------> slate <---- extend_slate: shown up to that time

`_started` is False until the first packet is shown or the slate comes. Nothing can be spliced
before that. A slate shows the last picture for 2 s and then its own; it has no source, so packets
that arrive meanwhile are ignored. `finish` may be called in any state, and nothing after it.

What holds at any time:

- All decisions (first keyframe, place on the clock, cuts) are made here and in `source`, on the one
  thread that calls this class, from the packets in the order in which they arrive. The threads
  behind carry them out; they cannot get out of step, however far behind each is.
- A cut is passed to every rendition before the packet that caused it. So all have the same
  segments with the same numbers, and one that is not made has a gap (`off`).
- Media never go back in time: a source begins at `_origin`, where those before it ended, whichever
  of picture and sound was longer.
- A segmenter belongs to one thread. That of the top rendition belongs to this one as long as
  `_copy` is set. When the source's packets are not fit for it any more (no keyframe in time,
  another size, a slate), a cut says `takeover`: `_copy` becomes None, and its encoder continues,
  up to the source's next keyframe (`_bridges`), or until the parent finds that keyframes are
  regular again (`reuse_source`).
- If no rendition needs decoded pictures, none are decoded. `_undecoded` has the packets since the
  last point of entry then, so that an encoder can begin at any cut.
- Sound waits until the grid has settled its place (`_release_sound`), and does not wait for a
  picture that stays away: the last one is held then (`_hold_picture`).

Without a picture (`_renditions` is empty) the sound leads: it starts the clock and the segments.
Times are ticks of 90 000 a second on the output clock, unless a name says otherwise.
"""

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from media.hls.fmp4 import Sample
from media.hls.segment import EpochStart
from media.ladder import AUDIO_RENDITION
from media.ticks import MICROSECONDS, MILLISECONDS, VIDEO_SCALE, rescale
from media.track import VideoTrack
from transcode.engine.codec.decode import DecoderFactory
from transcode.engine.codec.encode import Quality
from transcode.engine.core.clock import OutputClock
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.random_access import AccessPoint, same_parameter_sets
from transcode.engine.live.audio_pipeline import AudioPipeline
from transcode.engine.live.first_packets import FirstPackets
from transcode.engine.live.live_posters import PosterStage
from transcode.engine.live.own_packets import OwnPackets
from transcode.engine.live.shedding import omitted_renditions
from transcode.engine.live.slate import decode_slate
from transcode.engine.live.source import LiveSource
from transcode.engine.live.video_pipeline import (
    HELD_INTERVAL,
    CodedPicture,
    EndAt,
    HoldUntil,
    Preroll,
    ShowFrom,
    StartSlate,
    VideoPipeline,
)
from transcode.engine.output.part_lengths import choose_target
from transcode.engine.output.rendition_encoder import EncoderStage, HandBack, RenditionEncoder
from transcode.engine.output.segment_grid import HOLE, SLACK, Cut, SegmentGrid
from transcode.engine.output.segmenter import LiveSegmenter
from transcode.protocol.messages import (
    Begin,
    EpochFinished,
    Packet,
    Placed,
    Prepared,
    Spliced,
    TakenOver,
)

# How long the last picture is shown before the slate: most encoders that return at once do so
# within this time.
_LAST_PICTURE: Final = 2 * VIDEO_SCALE
# With fewer coded pictures waiting than this, a pipeline can continue until the next cut without
# falling far behind: a quarter of a second at 30 a second.
_FEW_PICTURES: Final = 8
# Raw frames that wait for an encoder, 12 MB each at 2160p: enough to even out a slow one.
_ENCODER_DEPTH: Final = 4


class EpochPipeline:
    """Carries out the `Begin` of `first`, whose packets the caller adds, and those spliced to it.

    `track_of` returns a rendition's segmenter; `origin` and `sequence` continue the run.
    """

    def __init__(
        self,
        first: FirstPackets,
        *,
        origin: int,
        sequence: int,
        discontinuity: bool,
        track_of: Callable[[str], LiveSegmenter],
        reports: ReportWriter,
        decoders: DecoderFactory | None = None,
        posters: PosterStage | None = None,
    ) -> None:
        begin = first.begin
        self.number = begin.epoch
        self._posters = posters if begin.poster else None
        self._begin = begin
        self._origin = origin  # where the source's first picture belongs
        self._reports = reports
        self._track_of = track_of
        self._decoders = decoders
        in_order = begin.low_latency and not first.is_reordered
        self._source = LiveSource(begin, reports, in_order=in_order)
        has_no_picture = begin.video is None
        self._interval = (
            HELD_INTERVAL if has_no_picture else first.frame_interval(self._source.rate)
        )
        self._part = begin.part
        if self._interval is not None and begin.ladder is not None:
            self._part = choose_target(begin.part, self._interval, begin.cut)
        self._frames = 0  # of earlier sources
        self._renditions = begin.ladder.renditions if begin.ladder else ()
        self._begins_own = self._source.is_reusable and not begin.preroll
        self._encoder_key = self._source.encoder_key
        self._encoder_rate = self._source.expected_rate(self._interval)
        self._started = False
        self._is_alike = True  # the source's parameter sets are those of the one before
        self._reached = origin  # where the source before ended, with all of its own packets
        self._slate_start: int | None = None  # where the present slate begins
        self._copy: OwnPackets | None = None
        self._bridges = False
        self._has_told = True  # that its own packets will make the top rung
        self._video: VideoPipeline | None = None
        self._encoders: list[RenditionEncoder] = []
        self._decoded = False
        self._undecoded: list[CodedPicture] = []
        self._off = frozenset(begin.off)
        self._abandoned: frozenset[str] = frozenset()  # since the last cut
        self._tracks: list[LiveSegmenter] = []
        self._grid = SegmentGrid(
            sequence=sequence,
            discontinuity=discontinuity,
            cut=begin.cut,
            longest=begin.longest,
            reuse=self._begins_own,
        )
        names = (*(rung.name for rung in self._renditions), AUDIO_RENDITION)
        reports.send(
            Prepared(epoch=begin.epoch, names=names, reused=self._reused_name, part=self._part)
        )
        self._audio = AudioPipeline(
            begin.audio,
            self._open_segmenter(AUDIO_RENDITION),
            origin=origin,
            reports=reports,
            decoders=decoders,
        )

    @property
    def source(self) -> LiveSource:
        """The present source."""
        return self._source

    @property
    def sequence(self) -> int:
        """The number of the segment after the epoch's newest."""
        return self._grid.sequence

    @property
    def made(self) -> int:
        """How far the slowest rendition is, in the source's milliseconds."""
        clock = self._source.clock
        slowest = min((track.made for track in self._tracks if not track.is_gap), default=0)
        if clock is None or not slowest:
            return 0
        return rescale(slowest - clock.place(0, 1), VIDEO_SCALE, MILLISECONDS)

    def add_packet(self, packet: Packet) -> None:
        """Process the source's next packet."""
        source = self._source
        if source.take_preroll(packet):
            return
        if packet.video:
            if source.video is not None and self._renditions:
                self._add_picture(packet, source, source.video)
        elif source.audio is not None:
            self._add_sound(packet, source, source.audio.scale)

    def splice(self, begin: Begin) -> bool:
        """Continue with another source where this one ends; return False if it cannot follow."""
        source = LiveSource(begin, self._reports)
        if not self._fits(source, begin):
            return False
        self._reached = self._end_so_far()
        self._origin = self._cut_off(begin)
        self._slate_start, self._has_told = None, True
        self._is_alike = same_parameter_sets(self._source.config, source.config)
        self._set_source(source)
        self._grid.splice()
        if not self._lends:
            self._await_entry(told=True)
        self._undecoded.clear()
        if self._video is not None and source.video_format is not None:
            self._video.put(source.video_format)
        self._reports.send(Spliced(epoch=begin.epoch, reused=self._reused_name))
        return True

    def continue_source(self, begin: Begin) -> bool:
        """Continue with other sound or another clock; return False if a new epoch is needed."""
        source = self._source
        if self._slate_start is not None or not source.can_continue(begin):
            return False
        if begin.audio != source.audio:
            self._audio.splice(begin.audio)
        source.continue_with(begin)
        self._reports.send(Spliced(epoch=begin.epoch, reused=self._reused_name))
        return True

    def reuse_source(self) -> None:
        """Let the source's own packets make the top rung from the next keyframe on."""
        if self._started and self._slate_start is None and not self._lends:
            self._await_entry(told=False)

    def show_slate(self, picture: bytes | None) -> None:
        """End the source; show its last picture, then a slate until `extend_slate`'s time."""
        if self._slate_start is not None:
            return
        at = self._slate_start = self._end_so_far() if self._started else self._origin
        self._bridges = False
        no_source = msgspec.structs.replace(self._begin, video=None, audio=None)
        if self._renditions:
            if not self._started:
                # The encoders are opened for the slate's colours, not those of a source.
                self._encoder_key, self._begins_own = None, False
                self._start_pictures()
            for cut in self._grid.leave_source(at):
                self._apply_cut(cut, report=False)
            if self._video is not None:
                slate = decode_slate(picture, self._reports)
                self._video.put(StartSlate(at + _LAST_PICTURE, slate))
        self._started = True
        self._set_source(LiveSource(no_source, self._reports))

    def extend_slate(self, elapsed: int) -> None:
        """Show the slate up to `elapsed` ticks from where it began."""
        if self._slate_start is None:
            return
        until = self._slate_start + elapsed
        if self._video is not None:
            for cut in self._grid.cut_until(until):
                self._video.put(HoldUntil(cut.at - 1))
                self._apply_cut(cut)
            self._video.put(HoldUntil(until))
        self._audio.fill_to(until)
        if self._renditions:
            self._release_sound()
        else:
            self._audio.cut_by(self._grid)

    def leave_out(self, off: tuple[str, ...]) -> None:
        """Leave out the rungs in `off`, and make all others from the next cut on.

        Those in `off` end at once, or at low latency with the next cut if few pictures wait.
        """
        self._off = frozenset(off)
        if self._video is None:
            return
        omitted = self._omitted()[0]
        if self._copy is not None:
            # If nothing is decoded any more, no rendition can return before the next cut.
            omitted |= self._abandoned
        if self._begin.low_latency and self._video.waiting < _FEW_PICTURES:
            return  # with the next cut: viewers then have whole segments up to a gap
        self._abandoned = omitted
        self._video.abandon(omitted, self._grid.sequence, reuses=self._copy is not None)

    def finish(self) -> EpochFinished:
        """Finish all renditions; return the epoch's sums."""
        if self._decoders is not None:
            self._hold_last_picture()
        ends: list[int] = []
        if self._copy is not None and (end := self._copy.end()) is not None:
            ends.append(end)
        if self._video is not None:
            self._video.finish()
        ends += [rung.end for rung in self._encoders if rung.end is not None]
        end = max(ends, default=None)
        if end is None and self._encoders:  # all of them end in a gap
            end = self._end_so_far()
        for rung in self._encoders:
            if rung.segmenter.is_gap:
                rung.segmenter.end(end or 0)
        if self._started:
            sound = self._audio.finish(end if self._renditions else None, self._grid)
            end = max(end or 0, sound or 0)
        return EpochFinished(
            epoch=self.number,
            end=self._origin if end is None else end,
            frames_in=self._frames + self._source.frames,
            frames_out={track.name: track.frames for track in self._tracks},
        )

    def _set_source(self, source: LiveSource) -> None:
        self._frames += self._source.frames
        self._source = source
        self._audio.splice(source.audio)

    # -- picture ----------------------------------------------------------------------------------

    def _add_picture(self, packet: Packet, source: LiveSource, track: VideoTrack) -> None:
        access = source.classify(packet, track)
        if access is None:
            return
        clock = source.clock
        if clock is None:
            clock = self._start(source, packet, source.first_shown(packet, track), track.scale)
        before = clock.offset
        dts, pts = source.place_picture(packet, clock, track)
        if clock.offset != before:
            self._reports.send(Placed(epoch=source.number, offset=clock.offset))
        entry = access is AccessPoint.ENTRY
        if pts < source.shown_from:
            self._decode((packet.data, dts, pts), entry=entry)
            self._add_early_sound(source)
            return
        own = self._lends and source.is_reusable and source.can_reuse(packet, access)
        cuts = self._grid.add_picture(pts, idr=entry, own=own)
        if self._bridges and self._grid.reuses:
            self._end_bridge()
        for cut in cuts:
            self._apply_cut(cut, dts)
        if self._copy is not None:
            sample = Sample(dts, pts, 0, entry, packet.data)
            self._copy.add(source, sample, cuts[0] if cuts else None)
        self._decode((packet.data, dts, pts), entry=entry)
        if access is not AccessPoint.OTHER and self._posters is not None:
            poster_source = source.poster_source(self._renditions, self._begin.poster)
            self._posters.offer(poster_source, packet.data, pts)
        self._add_early_sound(source)
        due = source.sound_due(dts) if source.audio is not None else self._grid.newest
        self._audio.fill_to(due)
        self._release_sound()

    def _apply_cut(self, cut: Cut, dts: int | None = None, *, report: bool = True) -> None:
        """Pass a cut to all renditions before the packet that caused it.

        `dts` is that packet's decode time, None if there is none: the last picture is held up to
        the cut. If the encoder takes over, that is reported unless `report` is False, that is,
        unless the source did not cause it.
        """
        is_taken_over, self._bridges = self._bridges, False  # no keyframe came in time
        if cut.takeover and self._copy is not None:
            self._copy.stop(cut.at, dts)  # from here on the encoder's thread uses the segmenter
            self._copy, is_taken_over = None, report
        if is_taken_over:
            source = self._source
            self._reports.send(TakenOver(epoch=source.number, for_good=source.mismatched))
        off, self._decoded = self._omitted()
        self._abandoned = frozenset()
        cut = msgspec.structs.replace(cut, off=off, decoded=self._decoded)
        if self._video is not None:
            if cut.takeover:  # it is between two entries; the packets since the last one were kept
                for coded in self._undecoded:
                    self._video.put(coded)
            self._video.put(cut)
        self._undecoded.clear()
        self._audio.add_cut(cut)

    def _omitted(self) -> tuple[frozenset[str], bool]:
        """Return which encoded rungs are not made, and whether any is."""
        own = self._copy is not None
        encoded = tuple(rung.name for rung in self._renditions[1 if own else 0 :])
        off = omitted_renditions(encoded, self._off, has_copy=own)
        return off, len(off) < len(encoded)

    def _decode(self, coded: CodedPicture, *, entry: bool) -> None:
        """Decode a picture; if no rung needs it, keep it in case the encoder takes over."""
        if self._decoded and self._video is not None:
            self._video.put(coded)
            return
        if entry:
            self._undecoded.clear()
        self._undecoded.append(coded)

    # -- sound ------------------------------------------------------------------------------------

    def _add_early_sound(self, source: LiveSource) -> None:
        while source.early_sound and source.audio is not None:
            self._add_sound(source.early_sound.popleft(), source, source.audio.scale)

    def _add_sound(self, packet: Packet, source: LiveSource, scale: int) -> None:
        clock = source.clock
        if source.awaits_clock and self._renditions:
            source.early_sound.append(packet)
            return
        if clock is None:
            clock = self._start(source, packet, packet.pts, scale)
        if not self._renditions:
            before = clock.offset
            source.restart_clock(packet.pts, scale, self._audio.end)
            if clock.advance(packet.pts, scale):
                self._reports.count_trouble("clock jumped", packet.pts)
            if clock.offset != before:
                self._reports.send(Placed(epoch=source.number, offset=clock.offset))
            source.newest_ms = rescale(packet.pts, scale, MILLISECONDS)
        pts = clock.place(packet.pts, scale)
        if self._renditions:
            placed = source.place_sound(pts)
            if placed is None:
                self._reports.count_trouble("sound far from the picture", pts - self._grid.newest)
                return
            pts = placed
            if not source.needs_sound(pts, self._audio.end):
                return
        self._audio.decode(packet.data, pts)
        if self._renditions:
            self._hold_picture(source.note_sound(pts), clock)
            self._release_sound()
        else:
            self._audio.cut_by(self._grid)

    def _release_sound(self) -> None:
        self._audio.release(self._grid.settled(self._source.step))

    def _hold_picture(self, until: int, clock: OutputClock) -> None:
        """Hold the picture up to `until`: the sound does not wait for it any more."""
        for cut in self._grid.cut_until(until):
            self._apply_cut(cut)
        if self._grid.holds_picture and self._video is not None:
            clock.advance_to(until)
            self._video.put(HoldUntil(until))

    def _hold_last_picture(self) -> None:
        """Hold a file's last picture while its sound goes on, unless that is a copied packet."""
        until = self._audio.end
        if self._video is None or self._copy is not None:
            return
        if until - self._grid.newest - self._source.step > HOLE:
            for cut in self._grid.cut_until(until):
                self._apply_cut(cut)
            self._video.put(HoldUntil(until))

    # -- beginning --------------------------------------------------------------------------------

    @property
    def _reused_name(self) -> str | None:
        """The rendition that the source's own packets make, or will make."""
        is_reused = self._lends if self._started else self._begins_own
        return self._renditions[0].name if is_reused and self._renditions else None

    @property
    def _lends(self) -> bool:
        """True while the source's own packets make the top rung, or will from a keyframe on."""
        return self._copy is not None or self._bridges

    def _fits(self, source: LiveSource, begin: Begin) -> bool:
        """Return whether a source can follow without a change that players must know of."""
        ladder = begin.ladder
        rungs = ladder.renditions if ladder is not None and source.video is not None else ()
        if not self._started or self._decoders is not None:
            return False
        same = [(rung.name, rung.width, rung.height) for rung in rungs]
        if same != [(rung.name, rung.width, rung.height) for rung in self._renditions]:
            return False
        if not rungs:
            return True
        # Low-delay encoders rely on the frame rate, and would send too much.
        if self._begin.low_latency and source.is_faster(self._encoder_rate):
            return False
        begins_own = source.is_reusable and not begin.preroll and begin.show_from is None
        if self._slate_start is not None and begins_own:
            return False  # after a slate, encoders make no pictures that are reordered
        return source.encoder_key == self._encoder_key

    def _cut_off(self, begin: Begin) -> int:
        """End the source where another one wants it to; return where the encoded rungs end."""
        until, source = begin.show_until, self._source
        if until is None or source.clock is None or source.video is None or self._video is None:
            return self._reached
        if self._lends and begin.show_from is None:  # its packets have been sent
            return self._reached
        end = min(self._reached, source.clock.place(until, source.video.scale))
        self._video.put(EndAt(end))
        return end

    def _end_so_far(self) -> int:
        """Return where the media so far end, whichever of picture and sound leads."""
        if not self._renditions:
            return self._audio.end
        if self._slate_start is not None:
            return max(self._slate_start, self._grid.newest + 1)
        # A held picture is repeated up to the newest time.
        return self._grid.newest + (1 if self._grid.holds_picture else self._source.step)

    def _start(self, source: LiveSource, packet: Packet, first: int, scale: int) -> OutputClock:
        """Start the source's leading track at its time `first`, with its first packet to be shown.

        The first source starts the renditions, too, and that packet dates the epoch.
        """
        clock = source.begin(first, scale, self._origin)
        self._reports.send(Placed(epoch=source.number, offset=clock.offset))
        if not self._started:
            if packet.came_us:
                waited = first - packet.pts if source.leads_up else 0
                came_us = packet.came_us + rescale(waited, scale, MICROSECONDS)
                start = EpochStart(epoch=self.number, start=self._origin, came_us=came_us)
                self._reports.send(start)
            if self._renditions:
                self._start_pictures()
        # After a preroll, the first picture to be shown may not be the next one.
        if self._renditions and (source.leads_up or source.preroll or not self._is_alike):
            self._begin_bridge()
            self._is_alike = True
        if source.leads_up and self._video is not None:
            self._video.put(ShowFrom(self._origin))
        self._started = True
        if source.preroll and self._video is not None:
            self._video.put(Preroll(tuple(source.preroll), self._origin))
            source.preroll.clear()
        return clock

    def _begin_bridge(self) -> None:
        """Show a source from where it has no keyframe: the encoder makes all up to its next one."""
        if self._copy is not None:
            # What was sent too early is in the top rung, and is not shown in it again.
            self._reached -= self._copy.pause(self._origin)
            cut = self._grid.bridge(max(self._origin, self._reached - SLACK))
            self._apply_cut(cut, report=False)
            self._bridges = True
        elif not self._started:
            for cut in self._grid.add_picture(self._origin, idr=False, own=False):
                self._apply_cut(cut)
            self._await_entry(told=False)

    def _await_entry(self, *, told: bool) -> None:
        """Let the source's own packets make the top rung from its next keyframe on, if they can."""
        if self._source.is_reusable:
            self._bridges, self._has_told = True, told
            self._grid.await_entry()

    def _end_bridge(self) -> None:
        """Let the source's own packets make the top rung again, from the next picture on."""
        self._bridges = False
        free = threading.Event()
        self._copy = OwnPackets(self._track_of(self._encoders[0].rendition.name), free)
        if self._video is not None:
            self._video.put(HandBack(free))
        if not self._has_told:
            self._has_told = True
            self._reports.send(Spliced(epoch=self._source.number, reused=self._reused_name))

    def _start_pictures(self) -> None:
        source = self._source
        quality = Quality.LOW_DELAY if self._begin.low_latency else Quality.LIVE
        tracks = [self._open_segmenter(rendition.name) for rendition in self._renditions]
        self._encoders = [
            RenditionEncoder(rendition, track, self._reports, self._encoder_rate, quality=quality)
            for rendition, track in zip(self._renditions, tracks, strict=True)
        ]
        stages = [
            EncoderStage(f"encoding {each.rendition.name}", [each], _ENCODER_DEPTH)
            for each in self._encoders
        ]
        successor: EncoderStage | None = None
        if self._begins_own:
            self._copy = OwnPackets(tracks[0])
            successor, *stages = stages
        self._video = VideoPipeline(
            source.video_format,
            stages=stages,
            successor=successor,
            reports=self._reports,
            decoders=self._decoders,
            part=self._part,
        )

    def _open_segmenter(self, name: str) -> LiveSegmenter:
        track = self._track_of(name)
        track.begin(epoch=self.number, part=self._part)
        self._tracks.append(track)
        return track
