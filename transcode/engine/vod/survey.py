"""The survey: reads all packets of a file before anything is encoded, to decide what can be copied.

The file's own pictures make the top rung if every player can play them and their keyframes bound
every segment; `audio_survey` decides about its sound. The times of all pictures determine where
segments begin and which spans can be encoded separately (`span_planner`). A picture is held until
the next one (`held_pictures`), and the last one while sound continues.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from array import array
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

import msgspec
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from media.codecs.avc import AvcConfig, is_idr, is_picture
from media.codecs.bits import CodecError
from media.codecs.sei import is_rotated
from media.ladder import MOST_SOURCE_RATE, Rendition
from media.ticks import ORIGIN_SECONDS, VIDEO_SCALE
from transcode.engine.input.container import BadUpload, Upload, audio_streams, video_stream
from transcode.engine.input.demux import (
    ConfigWatch,
    KeyOrder,
    PacketTimes,
    Reach,
    decode_times,
    demux,
    has_one_clock,
    has_shown_times,
    packet_length,
    packet_times,
)
from transcode.engine.input.edited_parts import PartJoiner, SeamWatch
from transcode.engine.input.joined_clock import ClockWatch, Joins, joined_times
from transcode.engine.input.random_access import fits_config
from transcode.engine.input.stray_times import time_line
from transcode.engine.output.segment_grid import HOLE
from transcode.engine.vod.audio_survey import AudioSurvey, OwnAudio
from transcode.engine.vod.held_pictures import JUMP, frame_rate, has_leap
from transcode.engine.vod.span_planner import cuts_at_keyframes, cuts_by_clock, plan_spans
from transcode.protocol.file_messages import AssetOrder, SpanOrder, Surveyed

_MOST_RATE: Final = 61  # frames a second: what is faster is encoded, as most of it must be thinned
LEAP: Final = "the times jump"
# Formats in which each picture has a duration.
_OF_DURATIONS: Final = ("mov", "mp4")
# Formats with an index of keyframes; others must be read from the beginning.
_INDEXED: Final = ("mov", "mp4", "matroska", "webm")
# Codecs whose stream says, or shows in its first pictures, whether it has B-frames.
_DECLARED: Final = ("h264", "hevc", "mpeg4")
_USUAL_STEP: Final = VIDEO_SCALE // 30
# How long before it is shown a copied keyframe may be decoded: two pictures, one a second.
_MOST_LEAD: Final = 2 * VIDEO_SCALE
_LONG: Final = 20 * VIDEO_SCALE  # shorter assets are not worth more than one span


class Survey(msgspec.Struct, kw_only=True):
    """The facts about a file's pictures; times are on the output clock.

    `unreliable` is why the packets' times cannot be relied on, "" if they can. `decoded` are decode
    times if the file leaves some out. Adding `offset` brings the file's own times, in ticks, to the
    output clock. The last picture is shown up to `end`, which is later than `pictures_end` if the
    sound is longer. `rate` is in frames per 1000 s, 0 if unknown. `audible` is True if there is
    sound at all, and `sound` is what can be copied. `strays` is True if some pictures were left out
    because their times are damaged (see `transcode.engine.input.stray_times`). `restarts` is True
    if the file's clock begins again, and `joins` are those of its parts that were joined before.
    `timed` and `wait` are as in `SpanOrder`, and `sequential` is why decoding cannot begin in the
    middle of the file, "" if it can. `reached` is how far the times of all tracks go, used or not.
    """

    offset: int
    shown: Sequence[int]
    keys: tuple[int, ...]
    pictures_end: int
    end: int
    rate: int
    strays: bool = False
    restarts: bool = False
    joins: Joins = {}
    timed: bool = True
    wait: int = 0
    sequential: str = ""
    unreliable: str = ""
    decoded: tuple[int, ...] | None = None
    reached: int = 0
    reused: Rendition | None = None
    audible: bool = False
    sound: OwnAudio | None = None
    cuts: tuple[int, ...] = ()
    reason: str = ""
    spans: tuple[SpanOrder, ...] = ()

    @property
    def newest(self) -> int:
        """The last time at which there must be a picture."""
        return self.shown[-1] if self.end - self.shown[-1] <= HOLE else self.end - _USUAL_STEP

    def report(self) -> Surveyed:
        """Return the report to the parent."""
        return Surveyed(
            reused=self.reused.name if self.reused is not None else None,
            audible=self.audible,
            kept=self.sound is not None,
            mono=self.sound is not None and self.sound.channels == 1,
            spans=self.spans,
            reason=self.unreliable or self.reason,
            segments=len(self.cuts),
            reached=self.reached,
        )


def survey(upload: Upload, order: AssetOrder, joins: Joins | None = None) -> Survey | None:
    """Survey a file; return None if it has no picture, or none is wanted.

    If its parts have `joins` (see `transcode.engine.input.joined_clock`), all times are joined.

    Raises:
        BadUpload: it is empty.
    """
    picture = video_stream(upload)
    if picture is None or order.ladder is None:
        return None
    times_of = joined_times(joins or {})
    video = _VideoSurvey(picture, upload.format.name.split(","), times_of)
    sounds = audio_streams(upload)
    audio = {
        each.index: AudioSurvey(each, alone=len(sounds) == 1, times_of=times_of) for each in sounds
    }
    reach = Reach()
    for packet in demux(upload, [picture, *sounds], reach):
        if packet.stream is picture:
            video.add(packet)
        else:
            audio[packet.stream_index].add(packet)
    result = video.facts(audio[sounds[0].index].times if sounds else ())
    ends = [end for each in audio.values() if (end := each.end()) is not None]
    result.audible = bool(ends)
    result.restarts = result.restarts or any(each.restarts for each in audio.values())
    result.reached = reach.ticks
    if joins:
        result.joins, result.sequential = joins, "its parts were joined"
    if result.unreliable:
        return result
    if ends:
        audio_end = max(ends) + result.offset
        result.end = audio_end if audio_end - result.end > HOLE else result.end
    ladder = order.ladder.renditions
    cuts = video.cuts(ladder[0], result) if order.reuse and not joins else None
    if cuts is not None:
        result.reused = ladder[0]
    result.cuts = cuts or cuts_by_clock(result.shown[0], result.newest)
    for each in audio.values():
        result.sound = each.usable(result.offset, result.shown[0], result.cuts[-1], result.end)
    rungs = ladder[1:] if cuts is not None else ladder
    if rungs:
        result.spans = _spans(result, rungs)
        _check_seeking(upload, picture, result)
    return result


class _VideoSurvey:
    """Reads all packets of a video track."""

    def __init__(self, picture: VideoStream, formats: Sequence[str], times_of: PacketTimes) -> None:
        """Begin with a track; `formats` are the names of its container's format."""
        self._picture = picture
        self._times_of = times_of
        self._has_durations = any(name in formats for name in _OF_DURATIONS)
        self._has_one_clock = has_one_clock(picture.container)
        self._config = own_config(picture)
        self._watch = ConfigWatch(picture)
        self._shown = array("q")  # in decode order
        self._keys: list[int] = []
        self._entries: list[int] = []
        self._leads: list[tuple[int, int]] = []  # entries' numbers, and times from decode to show
        self._durations: dict[int, int] = {}  # longer than `JUMP`, by the picture's time
        self._size = self._end = 0
        self._length = self._read = 0  # of the newest packet, and how many were read
        self._timed = self._ordered = True
        self._copyable = self._config is not None
        self._has_shown_times = has_shown_times(picture.container)
        self._reordered = False  # times go back, as those of B-frames do
        self._clock = None if self._has_one_clock else ClockWatch(one_clock=False)
        self._restarts = False  # the clock began again
        self._seams, self._order = SeamWatch(), KeyOrder()
        self._overlaps = False  # a film begins before another one's end
        self._parts = [0]  # where those of an edit list begin in `_shown`
        self._sequential = ""

    def add(self, packet: "Packet[Stream]") -> None:
        """Add a packet; one that an edit list leaves out is only needed for decoding."""
        self._read += 1
        times = self._times_of(packet)
        if times is None:
            self._timed = False
            return
        self._copyable = self._copyable and not (packet.is_discard or packet.is_corrupt)
        self._copyable = self._copyable and not self._watch.is_other(packet)
        if self._seams.is_at(packet):
            self._parts.append(len(self._shown))
            self._order = KeyOrder()
            self._sequential = "its edit list has several parts"
        if packet.has_sidedata("palette"):
            self._sequential = "its palette comes once"
        if not packet.is_discard:
            self._add_shown(packet, *times)
            return
        if packet.is_keyframe:
            self._keys.append(times[1])

    def _add_shown(self, packet: "Packet[Stream]", dts: int, pts: int) -> None:
        self._reordered = self._reordered or (bool(self._shown) and pts < self._shown[-1])
        key = packet.is_keyframe
        self._overlaps = self._order.is_broken_by(pts, key=key) or self._overlaps
        self._timed = self._timed and (packet.pts is not None or not self._has_shown_times)
        self._ordered = self._ordered and packet.dts is not None
        if self._clock is not None and self._clock.is_at(dts, pts, key=packet.is_keyframe):
            self._restarts = True
        self._shown.append(pts)
        self._size += packet.size
        self._length = length = packet_length(packet)
        self._end = max(self._end, pts + length)
        if length > JUMP:
            self._durations[pts] = length
        if key:
            self._keys.append(pts)
        if self._copyable and self._config is not None:
            try:
                self._copyable = self._can_copy(bytes(packet), pts, self._config, key=key)
                if len(self._entries) > len(self._leads):
                    self._leads.append((len(self._shown) - 1, pts - dts))
            except CodecError:
                self._copyable = False

    def _can_copy(self, data: bytes, pts: int, config: AvcConfig, *, key: bool) -> bool:
        """Return whether a packet can be copied."""
        if not is_picture(data, config.length_size):
            return False
        if not key or not is_idr(data, config.length_size):
            return True
        self._entries.append(pts)
        return not is_rotated(data, config.length_size) and fits_config(data, config)

    def facts(self, sound: Sequence[int]) -> Survey:
        """Return the facts about the pictures, beside sound with packets at those times.

        Raises:
            BadUpload: there was none.
        """
        if not self._shown:
            raise BadUpload("The file holds no media: it is cut off or damaged.")
        line = time_line(self._shown)
        strays = line is not None and line.strays
        if line is not None and strays:
            self._leave_out_strays(line.first, line.last)
        shown = self._in_order()
        wait = self._wait(shown[0])
        shown[0] -= wait
        self._copyable = self._copyable and not wait
        offset = ORIGIN_SECONDS * VIDEO_SCALE - shown[0]
        step = shown[-1] - shown[-2] if len(shown) > 1 else _USUAL_STEP
        restarts = (line is not None and line.restarts) or (self._restarts and not strays)
        lacks_decode_times = self._timed and not self._ordered
        decoded = decode_times(self._shown) if lacks_decode_times else None
        own_end = self._own_end(shown[-1])
        end = (own_end if own_end > shown[-1] else shown[-1] + step) + offset
        return Survey(
            offset=offset,
            shown=array("q", (time + offset for time in shown)),
            keys=tuple(sorted(time + offset for time in self._keys)),
            pictures_end=end,
            end=end,
            strays=strays,
            restarts=restarts,
            timed=self._are_shown_times(),
            wait=wait,
            sequential=self._sequential,
            rate=frame_rate(shown, end - offset),
            unreliable=LEAP
            if restarts
            else _unreliability(shown, timed=self._timed, keys=bool(self._keys))
            or ("two films overlap" if self._overlaps and not strays else "")
            or self._leap(shown, end - offset, sound),
            decoded=None if decoded is None else tuple(time + offset for time in decoded),
        )

    def _own_end(self, last: int) -> int:
        """Return up to when the last picture is shown, as the file says; `last` if it does not.

        In MP4 a duration is the time up to the next packet, whenever that is shown. Where the file
        is cut off, a gap may follow in which another picture stands.
        """
        if not self._has_durations:
            return self._end
        return last if self._read < self._picture.frames else last + self._length

    def _in_order(self) -> "array[int]":
        """Return when the pictures are shown, in order."""
        joiner, shown = PartJoiner(), array("q")
        for begin, end in pairwise([*self._parts, len(self._shown)]):
            part = sorted(self._shown[begin:end])
            if part:
                joiner.begin(part[0])
            shown.extend(map(joiner.add, part))
        return shown

    def _wait(self, first: int) -> int:
        """Return for how long nothing is shown at the beginning, as an edit list says; 0 if hardly.

        Without an edit list, only a file in fragments begins with a later time than zero.
        """
        is_mov = "mov" in self._picture.container.format.name.split(",")
        return first if is_mov and self._picture.frames > 0 and first > HOLE else 0

    def _are_shown_times(self) -> bool:
        """Return whether pictures are shown at the times of their packets.

        If the decoder puts them in another order and the times never go back, as where a film was
        taken out of an AVI, the times are those of decoding.
        """
        delays = self._picture.codec_context.reorder_depth > 0
        guessed = self._picture.codec_context.name in _DECLARED and not self._reordered
        return self._has_shown_times and not (delays and guessed)

    def _leap(self, shown: Sequence[int], end: int, sound: Sequence[int]) -> str:
        """Return `LEAP` if the file's clock leaps ahead."""
        leaps = has_leap(
            shown,
            end,
            durations=None if self._has_durations else self._durations,
            sound=sound,
            one_clock=self._has_one_clock,
        )
        return LEAP if leaps else ""

    def _leave_out_strays(self, first: int, last: int) -> None:
        """Forget the pictures outside; others refer to them, so the packets cannot be copied."""
        self._shown = array("q", (time for time in self._shown if first <= time <= last))
        self._keys = [time for time in self._keys if first <= time <= last]
        self._end, self._length = last, 0
        self._copyable = False

    def cuts(self, rung: Rendition, survey: Survey) -> tuple[int, ...] | None:
        """Return the cuts for the file's own packets as the top rung; None if they cannot be."""
        config = self._config
        if (
            config is None
            or not self._copyable
            or not survey.timed
            or not rung.source_size
            or not config.plays_everywhere
        ):
            return None
        length = survey.end - survey.shown[0]
        if (
            (rung.width, rung.height) != (config.width, config.height)
            or config.aspect != 1
            or not self._keeps_pace(survey)
            or len(survey.shown) * VIDEO_SCALE > _MOST_RATE * length
            or self._size * 8 * VIDEO_SCALE > MOST_SOURCE_RATE * rung.rate * length
        ):
            return None
        entries = [time + survey.offset for time in self._entries]
        return cuts_at_keyframes(entries, survey.shown[0], survey.end)

    def _keeps_pace(self, survey: Survey) -> bool:
        """Return whether segments at the keyframes last as long to a decoder as to a viewer.

        Where pictures are held, decode times may be many seconds ahead of the pictures. Players
        place a segment by them, and the format has none below zero.
        """
        leads = [lead for _, lead in self._leads]
        if survey.decoded is not None:
            shift = survey.offset
            leads = [self._shown[at] + shift - survey.decoded[at] for at, _ in self._leads]
        return not leads or (max(leads) <= _MOST_LEAD and max(leads) - min(leads) <= HOLE)


def own_config(picture: VideoStream) -> AvcConfig | None:
    """Return the configuration of a video track whose packets can be parsed here."""
    if picture.codec_context.name != "h264":
        return None
    try:
        return AvcConfig.parse(picture.codec_context.extradata or b"")
    except CodecError:
        return None


def _unreliability(shown: Sequence[int], *, timed: bool, keys: bool) -> str:
    if not timed:
        return "some packets have no times"
    if not keys:
        return "there is no keyframe"
    if any(later == earlier for earlier, later in pairwise(shown)):
        return "two pictures have the same time"
    return ""


def _spans(result: Survey, rungs: tuple[Rendition, ...]) -> tuple[SpanOrder, ...]:
    # Players place the first segment by its first decode time, so that must not be far ahead.
    second = result.shown[1] if len(result.shown) > 1 else result.end
    step = min(second - result.shown[0], _USUAL_STEP)
    bounds = plan_spans(result.cuts, result.shown, result.keys, result.end)
    return tuple(
        SpanOrder(
            rungs=rungs,
            sequence=each.first,
            cuts=result.cuts[each.first : each.last],
            end=each.end,
            until=result.cuts[each.last] if each.last < len(result.cuts) else result.end,
            before=result.shown[0] - step if each.before is None else each.before,
            key=each.key,
            pictures=each.pictures,
            offset=result.offset,
            rate=result.rate,
            alone=len(bounds) == 1,
            timed=result.timed,
            wait=result.wait,
            joined=bool(result.joins),
        )
        for each in bounds
    )


def _check_seeking(upload: Upload, picture: VideoStream, result: Survey) -> None:
    """Join the spans into one if decoding cannot begin in the middle of the file."""
    has_many = len(result.spans) > 1
    length = result.end - result.shown[0]
    if has_many and not any(name in upload.format.name.split(",") for name in _INDEXED):
        result.reason = "its container has no index of keyframes"
    elif has_many and result.sequential:
        result.reason = result.sequential
    elif has_many and not all(_seeks_to_key(upload, picture, each) for each in result.spans[1:]):
        result.reason = "its keyframes are not found by its index"
    elif not has_many and length > _LONG:
        result.reason = "its keyframes are too far apart"
    if has_many and result.reason:
        result.spans = (_joined(result.spans),)


def _seeks_to_key(upload: Upload, picture: VideoStream, span: SpanOrder) -> bool:
    """Return whether seeking to a span's keyframe leads to a keyframe at or before it."""
    base = picture.time_base or Fraction(1, VIDEO_SCALE)
    upload.seek(seek_time(span, base), stream=picture)
    for packet in demux(upload, [picture]):
        times = packet_times(packet)
        return times is not None and packet.is_keyframe and times[1] <= span.key - span.offset
    return False


def seek_time(span: SpanOrder, base: Fraction) -> int:
    """Return a span's keyframe in its track's own time, rounded up."""
    return -(-(span.key - span.offset) * base.denominator // (VIDEO_SCALE * base.numerator))


def _joined(spans: tuple[SpanOrder, ...]) -> SpanOrder:
    last = spans[-1]
    return msgspec.structs.replace(
        spans[0],
        cuts=tuple(cut for each in spans for cut in each.cuts),
        end=last.end,
        until=last.until,
        pictures=sum(each.pictures for each in spans),
        alone=True,
    )
