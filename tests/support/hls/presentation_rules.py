"""The rules across the renditions of one presentation, and for its variants."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import msgspec

from tests.support.hls.fetches import joined
from tests.support.hls.findings import Report
from tests.support.hls.media_rules import MediaBytes
from tests.support.hls.rendition_history import KnownSegment, RenditionHistory
from tests.support.hls.strict_m3u8 import ListedVariant, MediaText, MultivariantText

_NEAR: Final = Fraction(1, 2)  # seconds: the part duration of playlists without parts
_MOST_SIGHTINGS: Final = 100
_AVC_PROFILES: Final = (66, 77, 100)  # Baseline, Main, High: each includes the previous ones


class ListedState(msgspec.Struct, frozen=True):
    """The newest media of a received playlist, and the values for reports about it."""

    at: float
    last: tuple[int, int]
    reported: tuple[int, int]


class CheckedRendition:
    """One rendition: its history, its media, and when they were listed."""

    def __init__(self, url: str, report: Report) -> None:
        self.report = report
        self.history = RenditionHistory(url, report)
        self.media = MediaBytes(self.history, report)
        self.sightings: list[ListedState] = []

    def newest_at(self, at: float) -> tuple[int, int]:
        """Return the newest media that were certainly listed at a time."""
        return max((state.last for state in self.sightings if state.at <= at), default=(-1, -1))

    def reported_at(self, at: float) -> tuple[int, int]:
        """Return the least values that reports had to have at a time."""
        return max((state.reported for state in self.sightings if state.at <= at), default=(-1, -1))

    def saw(self, text: MediaText, at: float) -> None:
        """Record a playlist that was received at a time."""
        self.sightings.append(ListedState(at, text.last, text.reported))
        del self.sightings[:-_MOST_SIGHTINGS]


class _Claim(msgspec.Struct, frozen=True):
    """A report about another rendition, to be checked with its next playlist."""

    source: str
    url: str
    last: tuple[int, int]
    at: float


class Presentation:
    """The renditions of one multivariant playlist; `url` is its address."""

    def __init__(self, url: str, report: Report) -> None:
        self.renditions: dict[str, CheckedRendition] = {}
        self.named: set[str] = set()  # by the newest multivariant playlist
        self._url = url
        self._report = report
        self._claims: list[_Claim] = []
        self._aligned: set[tuple[str, int]] = set()

    def interrupt(self) -> None:
        """Record a restart of the server, after which earlier reports do not count."""
        self._claims.clear()
        for rendition in self.renditions.values():
            rendition.sightings.clear()
            rendition.history.interrupt()

    def check_variants(self, text: MultivariantText) -> None:
        """Report variants whose codecs, size or bit rate differ from those of their media."""
        for variant in text.variants:
            rendition = self.renditions.get(joined(self._url, variant.uri))
            audio = [
                self.renditions.get(joined(self._url, each.uri))
                for each in text.renditions
                if each.kind == "AUDIO" and each.group == variant.audio and each.uri
            ]
            renditions = [each for each in (rendition, *audio) if each is not None]
            self._check_codecs(variant, renditions)
            if rendition is not None:
                self._check_rate(variant, rendition, [each for each in audio if each is not None])

    def check_update(
        self, rendition: CheckedRendition, text: MediaText, began: float, at: float
    ) -> None:
        """Compare a playlist that was received `at` a time with those of the other renditions."""
        for url, other in self.renditions.items():
            last = other.history.last
            if other is not rendition and last is not None and last.target != text.target:
                rendition.report(
                    f"the target is {text.target} s, that of {_name(url)} {last.target} s", "6.2.4"
                )
        self._judge_claims(rendition, began)
        self._check_reports(rendition, text, began, at)
        self._check_alignment(rendition)
        self.check_starts(rendition.history.listed)
        self._check_behind(rendition, text, began)

    def check_starts(self, numbers: Iterable[int]) -> None:
        """Report segments of the same number with different start times (6.2.4)."""
        for msn in numbers:
            first = self._first_with_start(msn)
            for url, rendition in self.renditions.items():
                begin = rendition.media.begin(msn)
                if first is None or begin is None or (url, msn) in self._aligned:
                    continue
                self._aligned.add((url, msn))
                if abs(begin.shown - first[1]) > self._near(rendition):
                    rendition.report(
                        f"the media of {msn} begin at {float(begin.shown):.3f} s, those of "
                        f"{_name(first[0])} at {float(first[1]):.3f} s",
                        "6.2.4",
                    )

    def _first_with_start(self, msn: int) -> tuple[str, Fraction] | None:
        for url, rendition in self.renditions.items():
            begin = rendition.media.begin(msn)
            if begin is not None:
                return url, begin.shown
        return None

    def _near(self, rendition: CheckedRendition) -> Fraction:
        last = rendition.history.last
        return max(_NEAR, (last and last.part_target) or _NEAR)

    def _check_alignment(self, rendition: CheckedRendition) -> None:
        """Check that discontinuities and dates are the same in all renditions."""
        history = rendition.history
        for url, other in self.renditions.items():
            if other is rendition:
                continue
            for msn in history.listed:
                segment, counterpart = history.known[msn], other.history.known.get(msn)
                if counterpart is not None and msn not in history.lost | other.history.lost:
                    self._compare(rendition, msn, segment, _name(url), counterpart)

    def _compare(
        self,
        rendition: CheckedRendition,
        msn: int,
        segment: KnownSegment,
        name: str,
        counterpart: KnownSegment,
    ) -> None:
        if segment.discontinuity != counterpart.discontinuity:
            rendition.report(
                f"{msn} has the discontinuity sequence number {segment.discontinuity}, in {name} "
                f"{counterpart.discontinuity}",
                "6.2.4",
            )
        walls = segment.lines.wall, counterpart.lines.wall
        if walls[0] is not None and walls[1] is not None:
            apart = abs(walls[0] - walls[1])
            if apart > self._near(rendition):
                rendition.report(f"the date of {msn} is {float(apart):.3f} s off {name}", "6.2.4")

    def _check_behind(self, rendition: CheckedRendition, text: MediaText, began: float) -> None:
        """Check that no rendition is more than a target duration behind another (6.2.4)."""
        if text.ended:
            return
        for url in self.named:
            other = self.renditions[url]
            newest = other.newest_at(began)[0]
            missing = sum(
                (
                    other.history.known[msn].lines.duration
                    for msn in other.history.listed
                    if text.last[0] < msn <= newest
                ),
                Fraction(0),
            )
            if missing > text.target:
                rendition.report(f"it is {float(missing):.1f} s behind {_name(url)}", "6.2.4")

    # -- rendition reports ----------------------------------------------------------------------

    def _check_reports(
        self, rendition: CheckedRendition, text: MediaText, began: float, at: float
    ) -> None:
        reported: set[str] = set()
        for each in text.reports:
            url = joined(rendition.history.url, each.uri)
            reported.add(url)
            other = self.renditions.get(url)
            if url == rendition.history.url:
                rendition.report("there is a report of the rendition itself", "4.4.5.4")
            if other is None:  # not in the current multivariant playlist
                continue
            last = (each.last_msn, -1 if each.last_part is None else each.last_part)
            newest = other.reported_at(began)
            if each.last_part is None and newest[1] >= 0 and each.last_msn <= newest[0]:
                rendition.report(f"the report of {_name(url)} has no LAST-PART", "4.4.5.4")
            elif _count_between(other.history, last, newest) > 1:
                rendition.report(
                    f"the report of {_name(url)} says {last} after {newest} was listed", "4.4.5.4"
                )
            self._claims.append(_Claim(rendition.history.url, url, last, at))
        if text.part_target is not None and not text.ended:
            missing = self.named - reported - {rendition.history.url}
            for url in sorted(missing):
                rendition.report(f"there is no report of {_name(url)}", "B.1")

    def _judge_claims(self, rendition: CheckedRendition, began: float) -> None:
        """Check that reports are never ahead of the available media."""
        due = [
            claim
            for claim in self._claims
            if claim.url == rendition.history.url and claim.at <= began
        ]
        for claim in due:
            self._claims.remove(claim)
            last = rendition.history.last
            if last is not None and last.reported < claim.last:
                source = self.renditions[claim.source]
                source.report(
                    f"the report of {_name(claim.url)} said {claim.last}, which came later",
                    "4.4.5.4",
                )

    # -- variants -------------------------------------------------------------------------------

    def _check_codecs(self, variant: ListedVariant, renditions: list[CheckedRendition]) -> None:
        report = self._report
        for rendition in renditions:
            for init in rendition.media.inits.values():
                if not any(_same_codec(init.codec, codec) for codec in variant.codecs):
                    report(f"{variant.uri} has {init.codec} beside {variant.codecs}", "4.4.6.2")
                if init.is_video and variant.size is not None and init.size != variant.size:
                    report(f"{variant.uri} is {variant.size}, its media {init.size}", "4.4.6.2")

    def _check_rate(
        self, variant: ListedVariant, rendition: CheckedRendition, audio: list[CheckedRendition]
    ) -> None:
        peak = _peak(rendition) + max((_peak(each) for each in audio), default=Fraction(0))
        if peak > variant.bandwidth:
            self._report(
                f"{variant.uri} says {variant.bandwidth} bit/s, its peak is {int(peak)}", "4.4.6.2"
            )


def _peak(rendition: CheckedRendition) -> Fraction:
    """Return the peak segment bit rate: the maximum over 0.5 to 1.5 target durations (3)."""
    history, most = rendition.history, Fraction(0)
    target = 0 if history.last is None else history.last.target
    sizes = {n: size for n, size in rendition.media.sizes.items() if n not in history.lost}
    for first in sizes:
        size, duration, msn = 0, Fraction(0), first
        while msn in sizes and duration <= Fraction(3, 2) * target:
            if duration >= Fraction(target, 2) and duration:
                most = max(most, 8 * size / duration)
            size += sizes[msn]
            duration += history.known[msn].lines.duration
            msn += 1
        if Fraction(target, 2) <= duration <= Fraction(3, 2) * target and duration:
            most = max(most, 8 * size / duration)
    return most


def _same_codec(actual: str, declared: str) -> bool:
    """Return whether a declared codec matches the media; of some, only the first part is known.

    H.264's declares the required capabilities (RFC 6381, 3.3), so it also matches lower profiles
    and levels.
    """
    if actual[:5].lower() == declared[:5].lower() == "avc1.":
        (profile, level), (most, highest) = (_capabilities(each) for each in (actual, declared))
        comparable = profile in _AVC_PROFILES and most in _AVC_PROFILES
        if comparable and _AVC_PROFILES.index(profile) < _AVC_PROFILES.index(most):
            return level <= highest
        if profile == most and level < highest:
            return True
    return declared.lower() == actual.lower() or (
        "." not in actual and declared.split(".")[0] == actual
    )


def _capabilities(name: str) -> tuple[int, int]:
    """Return profile_idc and level_idc in a name like `avc1.64001f`."""
    return int(name[5:7], 16), int(name[9:11], 16)


def _count_between(
    history: RenditionHistory, after: tuple[int, int], until: tuple[int, int]
) -> int:
    """Count the parts (or segments without parts) after one and up to another."""
    return sum(
        after < (msn, index) <= until
        for msn in history.listed
        for index in (range(len(history.known[msn].lines.parts)) or (-1,))
    )


def _name(url: str) -> str:
    return "/".join(url.split("?")[0].split("/")[-2:])
