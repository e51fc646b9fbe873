"""A stream's state at the edge and its changes, encoded for other processes.

Pure. A timeline is sent as the difference to an earlier one: a part costs some 100 bytes,
regardless of the window's length. A whole timeline is the difference to nothing. The receiver's
timeline is equal to the sender's in every value, so both render the same playlists.

    StorageError
    └── BadEdgeMessage      not a message of this version, or not applicable to the state
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from media.hls.m3u8 import M3u8Error
from media.hls.playlist import PartialSegment, PlaylistSegment
from media.hls.timeline import Timeline
from media.hls.timeline_segments import ClosedSegment, OpenSegment, SegmentPage
from storage.errors import StorageError

# Processes of another version ignore messages, and serve the stored playlists.
_FORM: Final = 1

_T = TypeVar("_T")
_Step = TypeVar("_Step")


class BadEdgeMessage(StorageError):
    """Bytes are no message of this version, or not applicable to the state."""


class _Kept(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Pages or segments that the earlier timeline has."""

    start: int
    count: int


class _Shortened(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A page of the earlier timeline without its oldest segments."""

    index: int
    gone: int


class _Page(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A page that the earlier timeline does not have.

    Version 0.2 needs `split` to be there, and renders the same text either way.
    """

    segments: tuple[PlaylistSegment, ...]
    split: bool = False


class _Unparted(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A segment of the earlier timeline without its parts."""

    index: int


class _Closed(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A closed segment that the earlier timeline does not have."""

    segment: PlaylistSegment
    parts: tuple[PartialSegment, ...]


class _Opened(msgspec.Struct, frozen=True, array_like=True):
    """The open segment; its first `kept` parts are those of the earlier open segment."""

    map_uri: str | None
    discontinuity: bool
    wall_us: int | None
    kept: int
    parts: tuple[PartialSegment, ...]
    start: int | None = None  # last, and with a default, because of version 0.2


class TimelineChange(msgspec.Struct, frozen=True, array_like=True):
    """The difference between two timelines; `pages` and `recent` are None if they are equal.

    `facts` is the later timeline without its segments.
    """

    facts: Timeline
    pages: tuple[_Kept | _Shortened | _Page, ...] | None
    recent: tuple[_Kept | _Unparted | _Closed, ...] | None
    opened: _Opened | None

    @classmethod
    def between(cls, old: Timeline, new: Timeline) -> "TimelineChange":
        """Return the change from `old` to `new`; small if `new` grew from it."""
        pages = None
        if new.pages is not old.pages:
            pages = tuple(_steps(old.pages, new.pages, partial(_page_step, old.pages)))
        recent = None
        if new.recent is not old.recent:
            recent = tuple(_steps(old.recent, new.recent, partial(_recent_step, old.recent)))
        return cls(
            msgspec.structs.replace(new, pages=(), recent=(), opened=None),
            pages,
            recent,
            None if new.opened is None else _opened(old.opened, new.opened),
        )

    def applied(self, old: Timeline) -> Timeline:
        """Return the later timeline.

        Raises:
            BadEdgeMessage: this is not a change of `old`.
        """
        try:
            pages = old.pages
            if self.pages is not None:
                pages = tuple(page for step in self.pages for page in _build_pages(step, pages))
            recent = old.recent
            if self.recent is not None:
                recent = tuple(each for step in self.recent for each in _build_closed(step, recent))
            opened = None if self.opened is None else _build_open(self.opened, old.opened)
        except (IndexError, M3u8Error) as error:
            raise BadEdgeMessage(f"no change of this timeline: {error}") from error
        if len(recent) + sum(len(page.segments) for page in pages) != self.facts.count:
            raise BadEdgeMessage("no change of this timeline: segments are missing")
        return msgspec.structs.replace(self.facts, pages=pages, recent=recent, opened=opened)


class EdgeState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream's state at the edge: the timelines of its newest run, and its playlists.

    `folder` is that of the run; "" if there is none. `timelines` are by rendition, and `playlists`
    are multivariant ones by address.
    """

    folder: str = ""
    low_latency: bool = True
    timelines: Mapping[str, Timeline] = {}
    playlists: Mapping[str, str] = {}

    def with_timelines(
        self, folder: str, timelines: Mapping[str, Timeline], *, low_latency: bool
    ) -> "EdgeState":
        """Return the state with some timelines; those of another run replace all there are."""
        merged = {**self.timelines_of(folder), **timelines}
        return msgspec.structs.replace(
            self, folder=folder, low_latency=low_latency, timelines=merged
        )

    def timelines_of(self, folder: str) -> Mapping[str, Timeline]:
        """Return the timelines of a run, none if it is another."""
        return self.timelines if folder == self.folder else _NONE

    def with_playlists(self, playlists: Mapping[str, str]) -> "EdgeState":
        """Return the state with some playlists."""
        return msgspec.structs.replace(self, playlists={**self.playlists, **playlists})

    @property
    def shown_until_us(self) -> int | None:
        """The date of the end of what all renditions list; None if one lists nothing with a date.

        In microseconds since the Unix epoch.
        """
        ends = [timeline.end_us for timeline in self.timelines.values()]
        dated = [end for end in ends if end is not None]
        return min(dated, default=None) if len(dated) == len(ends) else None

    @property
    def has_ended(self) -> bool:
        """True once all timelines have ended."""
        return bool(self.timelines) and all(each.ended for each in self.timelines.values())


class EdgeChange(msgspec.Struct, frozen=True, array_like=True):
    """The difference between two states of a stream; timelines are only removed with their run."""

    folder: str
    low_latency: bool
    timelines: dict[str, TimelineChange]
    playlists: dict[str, str]

    @classmethod
    def between(cls, old: EdgeState, new: EdgeState) -> "EdgeChange":
        """Return the change from `old` to `new`."""
        old_timelines = old.timelines_of(new.folder)
        return cls(
            new.folder,
            new.low_latency,
            {
                name: TimelineChange.between(old_timelines.get(name, _EMPTY), timeline)
                for name, timeline in new.timelines.items()
                if old_timelines.get(name) is not timeline
            },
            {
                address: text
                for address, text in new.playlists.items()
                if old.playlists.get(address) != text
            },
        )

    def applied(self, old: EdgeState) -> EdgeState:
        """Return the later state.

        Raises:
            BadEdgeMessage: this is not a change of `old`.
        """
        old_timelines = old.timelines_of(self.folder)
        timelines = {
            name: change.applied(old_timelines.get(name, _EMPTY))
            for name, change in self.timelines.items()
        }
        new = old.with_timelines(self.folder, timelines, low_latency=self.low_latency)
        return new.with_playlists(self.playlists)

    def by_rendition(self) -> "Iterator[EdgeChange]":
        """Yield a change for each rendition, then one for the playlists, to interleave other work.

        Applying one takes 0.1 s in a window of 12 h.
        """
        for name, change in self.timelines.items():
            yield EdgeChange(self.folder, self.low_latency, {name: change}, {})
        yield EdgeChange(self.folder, self.low_latency, {}, self.playlists)


class EdgeMessage(msgspec.Struct, frozen=True, array_like=True):
    """A change of a stream's state from revision `base` (None: from nothing) to `revision`.

    `generation` is that of the process that made the change, and of the parts that it lists.
    """

    base: int | None
    revision: int
    generation: int
    change: EdgeChange
    form: int = _FORM

    def encode(self) -> bytes:
        """Return the message as bytes."""
        return _ENCODER.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "EdgeMessage":
        """Decode a message.

        Raises:
            BadEdgeMessage: the bytes are no message of this version.
        """
        try:
            message = _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadEdgeMessage(f"no message of the edge: {error}") from error
        if message.form != _FORM:
            raise BadEdgeMessage(f"a message of form {message.form}")
        return message


def decode_state(messages: Iterable[bytes]) -> "Iterator[tuple[EdgeState, EdgeMessage]]":
    """Yield the states from nothing to the last of these messages, each with its message.

    It does so after each millisecond of work, to interleave other work: a state may be incomplete
    before the last one.

    Raises:
        BadEdgeMessage: the bytes are no messages, or one does not follow the one before it.
    """
    state = EdgeState()
    revision: int | None = None
    for message in map(EdgeMessage.decode, messages):
        if message.base != revision:
            raise BadEdgeMessage("a change of another state")
        if message.base is None:
            for change in message.change.by_rendition():
                state = change.applied(state)
                yield state, message
        else:
            state = message.change.applied(state)
            yield state, message
        revision = message.revision


_EMPTY: Final = Timeline()
_NONE: Final[Mapping[str, Timeline]] = {}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(EdgeMessage)


def _steps(
    old: Sequence[_T], new: Iterable[_T], make: Callable[[_T], _Step]
) -> Iterator[_Kept | _Step]:
    """Yield ranges of `new` that are in `old`, and the results of `make` for the rest."""
    indexes = {id(item): number for number, item in enumerate(old)}
    start = count = 0
    for item in new:
        index = indexes.get(id(item))
        if count and index == start + count:
            count += 1
            continue
        if count:
            yield _Kept(start, count)
            count = 0
        if index is None:
            yield make(item)
        else:
            start, count = index, 1
    if count:
        yield _Kept(start, count)


def _page_step(old: Sequence[SegmentPage], page: SegmentPage) -> _Shortened | _Page:
    return _shortened(old, page) or _Page(page.segments)


def _shortened(old: Sequence[SegmentPage], page: SegmentPage) -> _Shortened | None:
    """Return a page as one of `old` without its oldest segments; None if it is not."""
    for index, earlier in enumerate(old):
        gone = len(earlier.segments) - len(page.segments)
        if gone > 0 and earlier.segments[-1] is page.segments[-1] and earlier.without(gone) == page:
            return _Shortened(index, gone)
    return None


def _recent_step(old: Sequence[ClosedSegment], closed: ClosedSegment) -> _Unparted | _Closed:
    for index, earlier in enumerate(old):
        if earlier.segment is closed.segment and earlier.without_parts() == closed:
            return _Unparted(index)
    return _Closed(closed.segment, closed.parts)


def _opened(old: OpenSegment | None, new: OpenSegment) -> _Opened:
    kept = 0
    for old_part, new_part in zip(() if old is None else old.parts, new.parts, strict=False):
        if old_part is not new_part:
            break
        kept += 1
    return _Opened(new.map_uri, new.discontinuity, new.wall_us, kept, new.parts[kept:], new.start)


def _build_pages(
    step: _Kept | _Shortened | _Page, old: Sequence[SegmentPage]
) -> Sequence[SegmentPage]:
    match step:
        case _Kept():
            return _kept_items(old, step)
        case _Shortened(index, gone):
            return [old[index].without(gone)]
        case _Page(segments):
            return [SegmentPage.of([ClosedSegment.of(each).segment for each in segments])]


def _build_closed(
    step: _Kept | _Unparted | _Closed, old: Sequence[ClosedSegment]
) -> Sequence[ClosedSegment]:
    match step:
        case _Kept():
            return _kept_items(old, step)
        case _Unparted(index):
            return [old[index].without_parts()]
        case _Closed(segment, parts):
            return [ClosedSegment.of(segment, parts)]


def _build_open(step: _Opened, old: OpenSegment | None) -> OpenSegment:
    old_parts = () if old is None else old.parts
    return OpenSegment.of(
        step.map_uri,
        (*_kept_items(old_parts, _Kept(0, step.kept)), *step.parts),
        discontinuity=step.discontinuity,
        wall_us=step.wall_us,
        start=step.start,
    )


def _kept_items(old: Sequence[_T], kept: _Kept) -> Sequence[_T]:
    if not 0 <= kept.start <= kept.start + kept.count <= len(old):
        raise IndexError("it has less")
    return old[kept.start : kept.start + kept.count]
