"""What viewers saw of a run that its owner left, beyond what is stored.

The owner shows media first and stores them afterwards. If it disappears, the next one finds at the
edge what viewers saw: it continues after that, with the same numbers, durations, dates and init
sections, and stores it. The open segments become segments of exactly the parts that were listed, in
each rendition: what is listed is final, and players continue after a discontinuity anyway. So one
rendition may be shorter by some parts than another, as after the death of an engine. A rendition
that listed nothing of a step, or whose media are gone, has a gap in it.

What the timelines at the edge do not say is not needed, or follows: without a discontinuity, a step
has the source of the step before it; with one, it counts as another source, which begins where the
step before it ends. Where no step is stored yet, the run's first media begin where every engine
begins.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from delivery.edge.base import ShownRun
from delivery.run.run_state import RunState, Step, StepSegment, rendition_names
from delivery.run.run_store import StoredRun
from delivery.run.store_queue import SegmentKey
from media.hls.m3u8 import M3u8Error, parse
from media.hls.playlist import MultivariantPlaylist, PlaylistSegment
from media.hls.segment import InitSection
from media.hls.timeline import Timeline
from media.hls.timeline_segments import ClosedSegment
from media.ticks import MICROSECONDS, ORIGIN_SECONDS, VIDEO_SCALE, rescale
from storage.objects.addresses import live_run, live_variants, media_segment
from storage.objects.base import Objects

_INIT: Final = re.compile(r"init-([0-9]{1,9})\.mp4")


class ShownSteps(msgspec.Struct, frozen=True, kw_only=True):
    """What viewers saw of a run beyond what is stored.

    `state` is that of the stored run, with the multivariant playlist that viewers saw. `steps`
    follow the stored ones, and `first` is the number of the first step that viewers saw. `segments`
    are those that must stay at the edge until they are stored, and `media` are their bytes. They
    may belong to older steps, which were stored without them. `at_edge` are their `parts` and init
    sections by address, and `inits` the init sections that may not be stored. `ended`: viewers saw
    the end of the run.
    """

    state: RunState
    steps: tuple[Step, ...]
    first: int
    segments: Mapping[SegmentKey, ClosedSegment]
    media: Mapping[SegmentKey, bytes]
    at_edge: Mapping[str, bytes]
    parts: tuple[str, ...]
    inits: tuple[InitSection, ...]
    ended: bool


async def read_shown_steps(
    objects: Objects, shown: ShownRun, run: StoredRun, listed: Sequence[Step]
) -> ShownSteps | None:
    """Return what viewers saw of a run; `listed` are the stored steps of its playlists.

    None is returned if the edge shows less than what is stored: it has lost what viewers saw.

    Raises:
        ObjectError: the store failed.
    """
    state, timelines = _announced(run, shown), shown.timelines
    names = rendition_names(state.renditions)
    if state.announced is None or set(names) != set(timelines):
        return None
    following = max(each.next_msn + bool(each.parts) for each in timelines.values())
    if following < state.next_sequence:
        return None
    stored = {(step.sequence, name) for step in listed for name in step.segments.keys() - step.gaps}
    segments = {
        (number, name): closed
        for name in names
        for number, closed in _closed_segments(timelines[name], since=state.first)
        if (number, name) not in stored
    }
    folder = live_run(run.hash, run.run)
    found = await shown.read(_addresses(folder, segments))
    inits = await _find_inits(objects, folder, segments, found, listed)
    media: dict[SegmentKey, bytes] = {}
    for key, closed in sorted(segments.items(), key=_by_number):  # the oldest are dropped first
        data = _media(folder, key, closed, found)
        if data is not None and (key[1], closed.segment.map_uri) in inits:
            media[key] = data
    previous = state.tail[-1] if state.has_steps else _before_first(state, names, segments)
    steps: list[Step] = []
    for number in range(state.next_sequence, following):
        previous = _step(number, previous, names, segments, media)
        steps.append(previous)
    state = msgspec.structs.replace(
        state,
        opened=state.next_sequence,  # those that viewers saw are `steps`
        epochs=max([state.epochs, *(step.epoch + 1 for step in steps)]),
        part_target=max(timeline.part_target for timeline in timelines.values()),
    )
    return ShownSteps(
        state=state,
        steps=tuple(steps),
        first=min(timeline.sequence for timeline in timelines.values()),
        segments={key: segments[key] for key in media},
        media=media,
        at_edge=found,
        parts=tuple(
            address
            for key, closed in segments.items()
            for address in _part_addresses(folder, key, closed)
        ),
        inits=tuple(
            InitSection(
                rendition=name,
                number=_init_number(uri),
                codecs=state.announced_codecs.get(name, ""),
                data=data,
            )
            for (name, uri), data in inits.items()
            if data is not None
        ),
        ended=all(timeline.ended for timeline in timelines.values()),
    )


def _announced(run: StoredRun, shown: ShownRun) -> RunState:
    """Return the state of a run with the multivariant playlist that viewers saw."""
    try:
        playlist = parse(shown.playlists.get(live_variants(run.hash), ""))
    except M3u8Error:
        return run.state
    if not isinstance(playlist, MultivariantPlaylist) or not playlist.variants:
        return run.state
    if not playlist.variants[0].uri.startswith(f"{run.run}/"):
        return run.state
    return msgspec.structs.replace(run.state, announced=playlist)


def _closed_segments(timeline: Timeline, *, since: int) -> Iterator[tuple[int, ClosedSegment]]:
    """Yield the segments from the number `since` on, the open one as if it were closed."""
    paged = chain.from_iterable(page.segments for page in timeline.pages)
    for number, each in enumerate(chain(paged, timeline.recent), timeline.sequence):
        if number >= since:
            yield number, each if isinstance(each, ClosedSegment) else ClosedSegment.of(each)
    opened = timeline.opened
    if opened is not None and opened.parts:
        yield (
            timeline.next_msn,
            ClosedSegment.of(
                PlaylistSegment(
                    uri=f"{timeline.next_msn}.m4s",
                    duration=sum(part.duration for part in opened.parts),
                    map_uri=opened.map_uri,
                    discontinuity=opened.discontinuity,
                    wall_us=opened.wall_us,
                    start=opened.start,
                ),
                opened.parts,
            ),
        )


def _segment_address(folder: str, key: SegmentKey) -> str:
    return media_segment(folder, key[1], key[0])


def _part_addresses(folder: str, key: SegmentKey, closed: ClosedSegment) -> list[str]:
    return [f"{folder}/{key[1]}/{part.uri}" for part in closed.parts]


def _media(
    folder: str, key: SegmentKey, closed: ClosedSegment, found: Mapping[str, bytes]
) -> bytes | None:
    """Return the bytes of a segment, joined from its parts if it has any; None for a gap."""
    if closed.segment.gap:
        return None
    addresses = _part_addresses(folder, key, closed) or [_segment_address(folder, key)]
    if any(address not in found for address in addresses):
        return None
    return b"".join(found[address] for address in addresses)


def _addresses(folder: str, segments: Mapping[SegmentKey, ClosedSegment]) -> list[str]:
    """Return the addresses of segments without parts, of parts, and of init sections."""
    addresses: dict[str, None] = {}
    for key, closed in segments.items():
        if not closed.segment.gap:
            addresses[f"{folder}/{key[1]}/{closed.segment.map_uri}"] = None
            parts = _part_addresses(folder, key, closed)
            addresses |= dict.fromkeys(parts or [_segment_address(folder, key)])
    return list(addresses)


async def _find_inits(
    objects: Objects,
    folder: str,
    segments: Mapping[SegmentKey, ClosedSegment],
    found: Mapping[str, bytes],
    listed: Sequence[Step],
) -> dict[tuple[str, str | None], bytes | None]:
    """Return the init sections that there are, in order, by rendition and URI.

    None is in the place of those that are stored.

    Raises:
        ObjectError: the store failed.
    """
    stored = {
        (name, f"init-{segment.init}.mp4")
        for step in listed
        for name, segment in step.segments.items()
        if not segment.gap
    }
    inits: dict[tuple[str, str | None], bytes | None] = {}
    for (_, name), closed in sorted(segments.items(), key=_by_number):
        uri = closed.segment.map_uri
        if uri is None or (name, uri) in inits:
            continue
        data = None if (name, uri) in stored else found.get(f"{folder}/{name}/{uri}")
        if (
            data is not None
            or (name, uri) in stored
            or await objects.stat(f"{folder}/{name}/{uri}") is not None
        ):
            inits[name, uri] = data
    return inits


def _by_number(item: tuple[SegmentKey, ClosedSegment]) -> SegmentKey:
    return item[0]


def _init_number(uri: str | None) -> int:
    """Return the number of an init section; -1 if there is none."""
    named = None if uri is None else _INIT.fullmatch(uri)
    return -1 if named is None else int(named[1])


def _before_first(
    state: RunState, names: Sequence[str], segments: Mapping[SegmentKey, ClosedSegment]
) -> Step:
    """Return what stands for the step before a run's first one: it ends where that begins."""
    start = ORIGIN_SECONDS * VIDEO_SCALE
    walls = (closed.segment.wall_us for closed in segments.values())
    first_us = min((wall_us for wall_us in walls if wall_us is not None), default=state.written_us)
    return Step(
        sequence=state.next_sequence - 1,
        epoch=0,
        discontinuity=False,
        origin_us=first_us - rescale(start, VIDEO_SCALE, MICROSECONDS),
        segments=dict.fromkeys(names, StepSegment(start, 0, 0, 0, 0, 0, gap=True)),
    )


def _step(
    number: int,
    previous: Step,
    names: Sequence[str],
    segments: Mapping[SegmentKey, ClosedSegment],
    media: Mapping[SegmentKey, bytes],
) -> Step:
    """Return a step of which viewers saw at least one rendition."""
    shown = {name: segments[number, name] for name in names if (number, name) in segments}
    discontinuity = any(closed.segment.discontinuity for closed in shown.values())
    origin_us = previous.origin_us
    walls = [closed.segment.wall_us for closed in shown.values()]
    dated = [wall_us for wall_us in walls if wall_us is not None]
    if discontinuity and dated:
        origin_us = min(dated) - rescale(previous.end, VIDEO_SCALE, MICROSECONDS)
    filled: dict[str, StepSegment] = {}
    for name, closed in shown.items():
        segment, before = closed.segment, previous.segments[name]
        start = before.start + before.duration
        if segment.wall_us is not None:
            start = rescale(segment.wall_us - origin_us, MICROSECONDS, VIDEO_SCALE)
        data = media.get((number, name))
        filled[name] = StepSegment(
            start=start,
            duration=segment.duration,
            size=len(data or b""),
            frames=0,  # unknown
            parts=len(closed.parts),
            init=max(_init_number(segment.map_uri), before.init),
            gap=data is None,
        )
    # As long as the longest of the others; a step that has left the playlists as the one before it.
    known = filled or {
        name: msgspec.structs.replace(each, start=previous.end)
        for name, each in previous.segments.items()
    }
    longest = max(known.values(), key=lambda each: each.duration)
    missing = {
        name: msgspec.structs.replace(
            longest, size=0, frames=0, parts=0, init=previous.segments[name].init, gap=True
        )
        for name in names
        if name not in filled
    }
    return Step(
        sequence=number,
        epoch=previous.epoch + discontinuity,
        discontinuity=discontinuity,
        origin_us=origin_us,
        segments={name: (filled | missing)[name] for name in names},
    )
