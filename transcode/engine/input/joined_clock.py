"""The parts of a file whose clock begins again, joined to one clock.

A recording that was joined from several, as MPEG-TS can be byte by byte, has a clock that begins
anew with each of them. The leading track, the picture if there is one, says where the parts begin.
The others follow it: a demuxer returns a picture once the next one begins, so the first sound of a
part may come before its first picture, and a part may lack a track. So the whole file is read
before its parts are placed: each begins where the one before ends, in all tracks.

Times are ticks of 90 000 a second.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from av.packet import Packet
from av.stream import Stream

from media.ticks import VIDEO_SCALE
from transcode.engine.input.container import Upload
from transcode.engine.input.demux import (
    PacketTimes,
    demux,
    has_one_clock,
    packet_length,
    packet_times,
)

# Times that differ by more, from one packet to the next, belong to different runs.
_LEAP: Final = 2 * VIDEO_SCALE
# Decode times that a container states go back by more only where its clock begins again: parts that
# were joined may be as short as the segments of a stream. Damage and fields shift them by less.
_REWIND: Final = VIDEO_SCALE // 2
_STEP: Final = VIDEO_SCALE // 30
# So many packets of the leading track may lie between the beginnings of a part in two tracks.
_NEAR: Final = 16
# So many of its packets may come after sound that follows them: demuxers hold them back.
_HELD_BACK: Final = 3
# By so much the sound of two parts may overlap, instead of a picture that is held as long.
_MOST_OVERLAP: Final = VIDEO_SCALE // 10


class Join(msgspec.Struct, frozen=True, gc=False):
    """From a track's packet `number` on, counted from 0, `offset` is added to its times."""

    number: int
    offset: int


Joins = Mapping[int, Sequence[Join]]
"""The joins of each track, by its index; nothing for a file of one part."""


class ClockWatch:
    """Watches a track for packets with which the file's clock begins again."""

    def __init__(self, *, one_clock: bool) -> None:
        """Begin before the first packet; does the container have one clock (see `demux`)?"""
        self._one_clock = one_clock
        self._rewind = _LEAP if one_clock else _REWIND
        self._decoded: int | None = None  # the newest time of decoding
        self._shown = 0

    def is_at(self, dts: int, pts: int, *, key: bool) -> bool:
        """Return whether the clock begins again with the next packet.

        It does if that is decoded long before the one before it. A keyframe that is not shown after
        all that were decoded before it begins a part that overlaps them.
        """
        before = self._decoded
        if before is None:
            self._decoded, self._shown = dts, pts
            return False
        overlaps = key and not self._one_clock and dts <= before and pts <= self._shown
        if overlaps or dts < before - self._rewind:
            self._decoded, self._shown = dts, pts
            return True
        self._decoded, self._shown = max(before, dts), max(self._shown, pts)
        return False


class _Run(msgspec.Struct, gc=False):
    """Packets of a track on one clock, from the one with `number` on.

    `first` and `newest` are times of decoding, `shown` and `newest_shown` those of showing. `led`
    counts the packets of the leading track that came before it, and `lead` is when the newest of
    them is decoded. `part` is the number of the leading track's run that it belongs to, if known.
    `resumes` is True if it continues the run before the last one, which was a stray.
    """

    number: int
    first: int
    shown: int
    step: int
    led: int = 0
    lead: int = 0
    part: int | None = None
    resumes: bool = False
    newest: int = 0
    newest_shown: int = 0

    def add(self, dts: int, pts: int) -> None:
        """Add the next packet."""
        self.step = dts - self.newest if dts > self.newest else self.step
        self.newest, self.newest_shown = max(self.newest, dts), max(self.newest_shown, pts)

    def follows(self, other: "_Run", offset: int) -> int:
        """Return the offset with which this run is shown after another, which has `offset`."""
        return offset + other.step + other.newest_shown - self.shown


class ClockScan:
    """Finds the joins of a file from the times of all packets; `leading` is a track's index."""

    def __init__(self, leading: int, *, one_clock: bool) -> None:
        self._leading = leading
        self._one_clock = one_clock
        self._watches: dict[int, ClockWatch] = {}
        self._runs: dict[int, list[_Run]] = {leading: []}
        self._counts: Counter[int] = Counter()

    def add(
        self, track: int, times: tuple[int, int] | None, *, key: bool = False, length: int = 0
    ) -> None:
        """Add a track's next packet; one whose times do not count has none."""
        number, led = self._counts[track], self._counts[self._leading]
        self._counts[track] += 1
        if times is None:
            return
        runs, is_leading = self._runs.setdefault(track, []), track == self._leading
        watch = self._watches.setdefault(track, ClockWatch(one_clock=self._one_clock))
        restarts = watch.is_at(*times, key=key and is_leading)
        resumes = is_leading and _resumes(runs, times[0])
        part = None if restarts or is_leading else self._part_begun(runs, times[0])
        if runs and not (restarts or resumes or part is not None):
            runs[-1].add(*times)
            return
        lead = self._runs[self._leading]
        run = _Run(number, *times, length or _STEP, led, part=part, resumes=resumes)
        run.lead = lead[-1].newest if lead else times[0]
        run.newest, run.newest_shown = times
        runs.append(run)

    def joins(self) -> Joins:
        """Return the joins of all tracks."""
        for track, runs in self._runs.items():
            if track != self._leading:
                self._assign(runs)
        for number, run in enumerate(self._runs[self._leading]):
            run.part = number
        offsets = self._offsets()
        if not any(offsets.values()):
            return {}
        return {
            track: [Join(each.number, offsets[each.part or 0]) for each in runs]
            for track, runs in self._runs.items()
        }

    def _part_begun(self, runs: Sequence[_Run], dts: int) -> int | None:
        """Return the leading track's newest part if a packet that goes on belongs to it now.

        It does soon after the part has begun, if it is closer to that than to the part before, or
        if the two overlap.
        """
        lead = self._runs[self._leading]
        if not runs or len(lead) == 1 or not lead or runs[-1].led >= lead[-1].number:
            return None
        before, present = lead[-2:]
        if self._counts[self._leading] - present.number > _NEAR:
            return None
        overlaps = abs(before.newest - present.first) <= _LEAP
        is_new = overlaps or _is_closer(dts, present.newest, before.newest)
        return len(lead) - 1 if is_new else None

    def _assign(self, runs: Sequence[_Run]) -> None:
        """Find the parts of another track's runs, by their places in the file and their times."""
        lead = self._runs[self._leading]
        begins = [each.number for each in lead]
        if self._is_one_to_one(runs, begins):
            for number, run in enumerate(runs):
                run.part = number
            return
        own: int | None = None
        for place, run in enumerate(runs):
            if run.part is None:
                at = max(0, bisect_left(begins, run.led) - 1)
                following = at + 1
                is_near = following < len(lead) and lead[following].number - run.led <= _NEAR
                if own is None or own < at:
                    run.part = following if is_near and self._is_early(run, at) else at
                elif is_near or self._counts[self._leading] - run.led <= _HELD_BACK:
                    run.part = max(own, at) + 1
                elif run.led <= _NEAR and runs[place - 1].led == 0:
                    # What came before was no part of the picture's.
                    for each in runs[:place]:
                        each.part = -1
                    run.part = at
                else:
                    run.part = own
            own = run.part

    @staticmethod
    def _is_one_to_one(runs: Sequence[_Run], begins: Sequence[int]) -> bool:
        """Return whether another track begins again as often as the leading one, and where it does.

        Where films in fragments were joined, all pictures of a fragment come before its sound.
        """
        return len(runs) == len(begins) and all(
            run.part in (None, number)
            and begins[number] - _NEAR <= run.led
            and (number + 1 == len(begins) or run.led <= begins[number + 1] + _HELD_BACK)
            for number, run in enumerate(runs)
        )

    def _is_early(self, run: _Run, at: int) -> bool:
        """Return whether a run in the leading track's part `at` is closer to the next part.

        It is by its time and by its place in the file: sound also begins some pictures late.
        """
        present, following = self._runs[self._leading][at : at + 2]
        return _is_closer(run.first, following.first, run.lead) and _is_closer(
            run.led, following.number, present.number
        )

    def _offsets(self) -> dict[int, int]:
        """Return the offset of each part, by its number."""
        parts: defaultdict[int, dict[int, list[_Run]]] = defaultdict(dict)
        for track, runs in self._runs.items():
            for run in runs:
                parts[run.part or 0].setdefault(track, []).append(run)
        before = parts.pop(-1, {})
        offsets: dict[int, int] = {}
        ends: dict[int, tuple[_Run, int]] = {}  # each track's last run so far, and its offset
        for number, tracks in sorted(parts.items()):
            offset = self._follow({track: runs[0] for track, runs in tracks.items()}, ends)
            if number > 1 and self._leading in tracks and tracks[self._leading][0].resumes:
                resumed = offsets[number - 2]
                offset = resumed if resumed >= offset - _MOST_OVERLAP else offset
            offsets[number] = offset
            for track, runs in tracks.items():
                ends[track] = max(runs, key=lambda each: each.newest_shown), offset
        if before:  # it ends where the picture begins
            last = max(each.newest + each.step for runs in before.values() for each in runs)
            offsets[-1] = self._runs[self._leading][0].first - last
        return offsets

    def _follow(self, begins: Mapping[int, _Run], ends: Mapping[int, tuple[_Run, int]]) -> int:
        """Return the offset of a part whose tracks begin so, after tracks that end so.

        All of its sound is heard after that of the parts before. A part that lacks the leading
        track begins when all are over.
        """
        if self._leading not in begins:
            return max(
                (each.follows(*end) for each in begins.values() for end in ends.values()), default=0
            )
        known = [track for track in begins if track in ends]
        offsets = {track: begins[track].follows(*ends[track]) for track in known}
        leading = offsets.pop(self._leading, 0)
        later = [each for each in offsets.values() if each > leading + _MOST_OVERLAP]
        return max([leading, *later])


def find_joins(upload: Upload, streams: Sequence[Stream]) -> Joins:
    """Read a whole file, whose first stream is the leading one, to find its joins."""
    scan = ClockScan(streams[0].index, one_clock=has_one_clock(upload))
    for packet in demux(upload, list(streams)):
        # An edit list goes back to a keyframe with packets that are not shown.
        times = None if packet.is_discard else packet_times(packet)
        key, length = packet.is_keyframe, packet_length(packet)
        scan.add(packet.stream_index, times, key=key, length=length)
    return scan.joins()


def joined_times(joins: Joins) -> PacketTimes:
    """Return what tells the times of a file's packets, each once, from its first one on."""
    return _JoinedClock(joins).times if joins else packet_times


class _JoinedClock:
    """Adds the offsets of the joins to the times of packets."""

    def __init__(self, joins: Joins) -> None:
        self._joins = {track: deque(each) for track, each in joins.items()}
        self._offsets: Counter[int] = Counter()
        self._counts: Counter[int] = Counter()

    def times(self, packet: "Packet[Stream]") -> tuple[int, int] | None:
        """Return the times of the next packet."""
        track = packet.stream_index
        joins = self._joins.get(track)
        while joins and joins[0].number <= self._counts[track]:
            self._offsets[track] = joins.popleft().offset
        self._counts[track] += 1
        times, offset = packet_times(packet), self._offsets[track]
        return None if times is None else (times[0] + offset, times[1] + offset)


def _resumes(runs: Sequence[_Run], dts: int) -> bool:
    """Return whether a packet continues the run before the last one, which was a stray then."""
    return len(runs) > 1 and dts - runs[-1].newest > _LEAP and dts >= runs[-2].newest


def _is_closer(time: int, one: int, other: int) -> bool:
    return abs(time - one) < abs(time - other)
