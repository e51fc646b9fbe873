"""Lends the media of another rung to a rendition that the engine does not make for now.

Pure. Few players know what to do about EXT-X-GAP: some stand until the rung returns. So a rung that
is shed lists the media of another one from the first part on that it does not have itself, behind
an init section of its own. Nothing else changes for players: neither addresses nor hints nor times.

The lender is the next smaller rung that is made, which is no heavier for the viewers, or else the
next larger one. All rungs are H.264: the encoders make nothing else, and no source's own packets
become a rung that are anything else.

A rung that is shed in the middle of a segment lacks the rest of it. At low latency that segment is
a gap, since its parts are listed. At normal latency nobody has seen them, so it is replaced.

Reports come rendition by rendition, and rungs may be seconds apart. What follows a borrowed segment
of its rendition waits until that segment is complete.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence

import msgspec

from delivery.run.step_builder import MOST_OPEN, PublicationError
from media.hls.segment import GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import Rendition

_Media = SegmentStart | Part | Segment
_Report = InitSection | _Media


class _Borrower(msgspec.Struct):
    """A rendition without media of its own: its reports that wait, the first a `GapStart`.

    `lender` is the rung that it borrows that segment from, `lent` how many of its reports it has.
    """

    waiting: deque[_Report | GapStart]
    lender: str | None = None
    lent: int = 0


class _UsedInit(msgspec.Struct, frozen=True):
    """An init section that a rendition uses: its owner's number, and that of the rendition."""

    owner: str
    number: int
    published: int


class BorrowedMedia:
    """The borrowed segments of one run that are not complete.

    `next_inits` holds the number of each rendition's next init section, 0 if absent; the caller
    counts in it the init sections that it gets. `replaces`: a segment that was begun may be
    replaced; the caller drops its parts when it gets a `GapStart`.
    """

    def __init__(self, next_inits: Mapping[str, int], *, replaces: bool) -> None:
        self._next_inits = next_inits
        self._replaces = replaces
        self._names: tuple[str, ...] = ()  # of the rungs, largest first
        self._gaps: dict[int, set[str]] = {}  # the renditions that have nothing, by sequence number
        self._media: dict[int, dict[str, list[_Media]]] = {}  # by sequence number and rendition
        self._inits: dict[str, dict[int, InitSection]] = {}  # by rendition and number
        self._numbers: dict[str, dict[int, int]] = {}  # where they differ from the engine's
        self._used: dict[str, _UsedInit] = {}  # the newest one of each rendition that has borrowed
        self._borrowers: dict[str, _Borrower] = {}
        self._left_out: set[tuple[str, int]] = set()  # gaps that the engine has yet to report
        self._first = 0  # the first sequence number that is not complete

    def prepare(self, renditions: Sequence[Rendition]) -> None:
        """Set the video rungs, largest first."""
        self._names = tuple(rung.name for rung in renditions)

    def take(self, report: _Report | GapStart) -> Iterator[_Report | GapStart]:
        """Take an engine's report; yield what is to be published, in order.

        Raises:
            PublicationError: a rendition is too far ahead of the others.
        """
        name = report.rendition
        if isinstance(report, GapStart):
            yield from self._begin_gap(report)
        elif name in self._borrowers:
            if not isinstance(report, InitSection):
                self._check_near(report.sequence)
            self._borrowers[name].waiting.append(report)
        else:
            yield from self._publish(report)
        if self._borrowers:
            yield from self._lend_all()

    def _begin_gap(self, gap: GapStart) -> Iterator[GapStart]:
        name, sequence = gap.rendition, gap.sequence
        self._check_near(sequence)
        media = self._media.get(sequence, {})
        if name not in self._names or (name in media and not self._replaces):
            return
        if media.pop(name, None) is not None:
            yield gap
        self._gaps.setdefault(sequence, set()).add(name)
        self._borrowers.setdefault(name, _Borrower(deque())).waiting.append(gap)

    def forget(self, sequence: int) -> None:
        """Forget what was there up to a step, which every rendition has reached."""
        while self._first <= sequence:
            self._gaps.pop(self._first, None)
            for name, media in self._media.pop(self._first, {}).items():
                for start in media:
                    if isinstance(start, SegmentStart):
                        self._forget_inits(name, start.init)
            self._first += 1

    def _forget_inits(self, name: str, oldest: int) -> None:
        inits = self._inits.get(name, {})
        for number in [each for each in inits if each < oldest]:
            del inits[number]
            self._numbers.get(name, {}).pop(number, None)

    def begin(self, sequence: int) -> None:
        """Begin with the reports of a new engine, whose first step is `sequence`."""
        self._gaps.clear()
        self._media.clear()
        self._inits.clear()
        self._numbers.clear()
        self._used.clear()
        self._borrowers.clear()
        self._left_out.clear()
        self._first = sequence

    def _lend_all(self) -> Iterator[_Report | GapStart]:
        """Yield what borrowers can have now; one that has all of it may be a lender itself."""
        progress = True
        while progress:
            progress = False
            for name in tuple(self._borrowers):
                for report in self._lend(name, self._borrowers[name]):
                    progress = True
                    yield report

    def _lend(self, name: str, borrower: _Borrower) -> Iterator[_Report | GapStart]:
        waiting = borrower.waiting
        while waiting:
            head = waiting[0]
            if not isinstance(head, GapStart):
                waiting.popleft()
                yield from self._publish(head)
                continue
            if borrower.lent and borrower.lender in self._gaps.get(head.sequence, ()):
                borrower.lent = 0
                yield head
            if not borrower.lent:  # a rung that seemed to be made may turn out to be a gap, too
                borrower.lender = self._lender(name, head.sequence)
            if borrower.lender is None:
                waiting.popleft()
                continue
            media = self._media.get(head.sequence, {}).get(borrower.lender, [])
            while borrower.lent < len(media):
                original = media[borrower.lent]
                borrower.lent += 1
                yield from self._copy(name, borrower.lender, original)
            if not media or not isinstance(media[-1], Segment):
                return
            waiting.popleft()
            borrower.lender, borrower.lent = None, 0
            self._left_out.add((name, head.sequence))
        del self._borrowers[name]

    def _lender(self, name: str, sequence: int) -> str | None:
        """Return the rung to borrow from, or None: there is none."""
        gaps = self._gaps.get(sequence, set())
        place = self._names.index(name)
        for lender in (*self._names[place + 1 :], *reversed(self._names[:place])):
            if lender not in gaps and self._inits.get(lender):
                return lender
        return None

    def _copy(self, name: str, lender: str, original: _Media) -> Iterator[_Report]:
        """Yield a lender's report as one of the borrower."""
        replace = msgspec.structs.replace
        used = self._used.get(name)
        match original:
            case Part():
                yield replace(original, rendition=name)
            case SegmentStart():
                if used is None or (used.owner, used.number) != (lender, original.init):
                    used = yield from self._use(name, lender, original.init)
                yield replace(original, rendition=name, init=used.published, borrowed=True)
            case Segment():  # the lender was shed in the middle of it if it is a gap
                yield replace(original, rendition=name, init=0 if used is None else used.published)

    def _use(self, name: str, owner: str, number: int) -> Generator[_Report, None, _UsedInit]:
        """Yield an init section under the next number of the rendition, which needs it now.

        Numbers rise from segment to segment, also when a rung returns with the one that it had.
        """
        following = self._next_inits.get(name, 0)
        init = self._inits[owner][number]
        used = self._used[name] = _UsedInit(owner, number, following)
        yield msgspec.structs.replace(init, rendition=name, number=following)
        return used

    def _publish(self, report: _Report) -> Iterator[_Report]:
        """Yield a rendition's own report."""
        match report:
            case InitSection():
                yield from self._publish_init(report)
            case Segment() if (report.rendition, report.sequence) in self._left_out:
                self._left_out.remove((report.rendition, report.sequence))
            case _:
                yield from self._publish_media(report)

    def _publish_init(self, init: InitSection) -> Iterator[InitSection]:
        name, number = init.rendition, init.number
        self._inits.setdefault(name, {})[number] = init
        if name in self._used:  # from here on our numbers are ahead of the engine's
            following = self._next_inits.get(name, 0)
            self._used[name] = _UsedInit(name, number, following)
            self._numbers.setdefault(name, {})[number] = following
            init = msgspec.structs.replace(init, number=following)
        yield init

    def _publish_media(self, report: _Media) -> Iterator[_Report]:
        name = report.rendition
        if name in self._names:
            self._media.setdefault(report.sequence, {}).setdefault(name, []).append(report)
        if isinstance(report, Part):
            yield report
            return
        numbers = self._numbers.setdefault(name, {})
        if isinstance(report, SegmentStart):
            used = self._used.get(name)
            if used is not None and used.owner != name and report.init in self._inits.get(name, ()):
                used = yield from self._use(name, name, report.init)
                numbers[report.init] = used.published
        number = numbers.get(report.init, report.init)
        yield msgspec.structs.replace(report, init=number) if number != report.init else report

    def _check_near(self, sequence: int) -> None:
        if not self._first <= sequence < self._first + MOST_OPEN:
            raise PublicationError(f"segment {sequence} is too far ahead of other renditions")
