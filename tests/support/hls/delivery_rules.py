"""The rules of HTTP: delivery directives, statuses, headers, compression."""

import re
from typing import Final

from tests.support.hls.fetches import Fetch, RequestedDirectives, directives_of
from tests.support.hls.findings import Report
from tests.support.hls.rendition_history import RenditionHistory
from tests.support.hls.strict_m3u8 import MediaText

_PLAYLIST: Final = frozenset({"application/vnd.apple.mpegurl", "audio/mpegurl"})
_MEDIA: Final = frozenset({"video/mp4", "audio/mp4", "text/vtt"})
_AGE: Final = re.compile(r"\b(?:s-maxage|max-age)=([0-9]+)")
_FAR: Final = 2  # segments ahead
_LATE: Final = 2.0  # seconds of tolerance for late responses


def check_headers(fetch: Fetch, kind: str, target: int, report: Report) -> None:
    """Report headers that are wrong for players or caches; `kind` is `playlist` or `media`."""
    if "access-control-allow-origin" not in fetch.headers:
        report(f"the answer {fetch.status} has no Access-Control-Allow-Origin", "CORS")
    caching = fetch.headers.get("cache-control", "")
    ages = [int(age) for age in _AGE.findall(caching)]
    if not ages and "no-store" not in caching and "no-cache" not in caching:
        report(f"the answer {fetch.status} has Cache-Control {caching!r}", "B.1")
        return
    age = max(ages, default=0)
    if fetch.status >= 400:
        if age > target:
            report(f"the answer {fetch.status} may be kept for {age} s", "B.1")
        return
    content = fetch.headers.get("content-type", "").partition(";")[0]
    if content not in (_PLAYLIST if kind == "playlist" else _MEDIA):
        report(f"the content type is {content!r}", "4")
    if kind == "playlist":
        # The response to a blocking request never changes (B.1).
        most = 6 * target if directives_of(fetch.url).blocks else target / 2
        if age > most:
            report(f"the playlist may be kept for {age} s", "B.1")
        if "accept-encoding" not in fetch.headers.get("vary", "").lower():
            report("the playlist does not vary by Accept-Encoding", "6.2.1")


def check_blocking(
    fetch: Fetch, text: MediaText | None, history: RenditionHistory, report: Report
) -> None:
    """Report a response to directives that violates 6.2.5.2.

    The history includes the playlist of the response already.
    """
    directives = directives_of(fetch.url)
    if directives.part is not None and directives.msn is None:
        if fetch.status != 400:
            report(f"_HLS_part without _HLS_msn was answered {fetch.status}", "6.2.5.2")
        return
    if directives.msn is None or history.last is None:
        return
    waited, longest = fetch.ended - fetch.began, 3.0 * history.last.target
    name = f"_HLS_msn={directives.msn}" + (
        f"&_HLS_part={directives.part}" if directives.part is not None else ""
    )
    if fetch.status == 200 and text is not None and not text.ended:
        if not history.has_come(directives.msn, directives.part):
            report(f"{name} was answered without it", "6.2.5.2")
        if waited > longest + _LATE:
            report(f"{name} was held for {waited:.1f} s", "6.2.5.2")
    elif fetch.status == 503 and waited < longest - _LATE:
        report(f"{name} was answered 503 after {waited:.1f} s", "6.2.5.2")
    elif fetch.status not in {200, 400, 503}:
        report(f"{name} was answered {fetch.status}", "6.2.5.2")


def is_late_answer(fetch: Fetch, history: RenditionHistory) -> bool:
    """Return True for a 503 after three target durations: the media may still come."""
    target = 0.0 if history.last is None else history.last.target
    return fetch.status == 503 and fetch.ended - fetch.began >= 3 * target - _LATE


def check_skip(fetch: Fetch, text: MediaText, report: Report) -> None:
    """Report a delta update that skips too much, or a missing one.

    `text` is the playlist as it was sent.
    """
    requested = directives_of(fetch.url).skip
    boundary = None if text.control is None else text.control.can_skip_until
    if text.skipped and (not requested or text.ended):
        report("a delta update came without being asked for", "6.2.5.1")
    if boundary is None or text.ended or not requested:
        return
    if text.skipped:
        remaining = sum((segment.length for segment in text.all), 0 * boundary)
        if remaining < boundary:
            report(f"a delta update lists {float(remaining):.3f} s only", "6.2.5.1")
        return
    behind = text.length - (text.segments[0].duration if text.segments else 0)
    if behind > boundary:
        report("a delta update was asked for and the whole playlist came", "6.2.5.1")


class FarRequests:
    """Requests for media far ahead, which must be refused at once (6.2.5.2)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._asked: list[tuple[int, Fetch]] = []

    def take(self, fetch: Fetch, history: RenditionHistory, newest: tuple[int, int]) -> None:
        """Add a request; `newest` was certainly listed when it began."""
        directives = directives_of(fetch.url)
        if directives.msn is None or history.last is None or history.last.ended:
            return
        self._asked.append((directives.msn, fetch))
        if fetch.status == 400 and self._is_near(directives, history.last, newest):
            self._report(
                f"_HLS_msn={directives.msn} was refused while {newest[0]} was the newest", "6.2.5.2"
            )

    def _is_near(
        self, directives: RequestedDirectives, last: MediaText, newest: tuple[int, int]
    ) -> bool:
        target = last.part_target or 1
        limit = 3 / target if target < 1 else 3
        near = directives.msn is not None and directives.msn <= newest[0] + _FAR
        return near and (directives.part or 0) <= max(newest[1], 0) + limit

    def judge(self, began: float, newest: int) -> None:
        """Check requests that ended before a later one began, whose response lists `newest`."""
        for msn, fetch in [each for each in self._asked if each[1].ended <= began]:
            self._asked.remove((msn, fetch))
            if fetch.status != 400 and msn > newest + _FAR:
                self._report(
                    f"_HLS_msn={msn} was answered {fetch.status} while {newest} was the newest",
                    "6.2.5.2",
                )


class Compression:
    """Checks that a compressed playlist between two equal plain ones is equal to them."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last: dict[str, list[tuple[bool, bytes]]] = {}

    def take(self, fetch: Fetch, content: bytes) -> None:
        """Add a response; `content` is its text without compression."""
        recent = self._last.setdefault(fetch.url, [])
        recent.append((fetch.is_gzip, content))
        del recent[:-3]
        kinds = [is_gzip for is_gzip, _ in recent]
        between = kinds == [False, True, False] and recent[0] == recent[2]
        if between and recent[1][1] != recent[0][1]:
            self._report("the compressed playlist is another than the plain one", "6.2.1")
