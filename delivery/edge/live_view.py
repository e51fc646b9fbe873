"""The playlists of a live run as viewers get them, rendered when they are requested.

A text is rendered once for all viewers that request it between two changes.
"""

from collections import defaultdict
from collections.abc import Mapping

from delivery.edge.base import CachedPlaylist
from delivery.playlists.hls import TimelineTexts
from media.hls.playlist import RenditionReport
from media.hls.timeline import Timeline


class LiveView:
    """The timelines of one run; `low_latency` allows the tags of low-latency HLS."""

    def __init__(self, *, low_latency: bool) -> None:
        self.low_latency = low_latency
        self._timelines: dict[str, Timeline] = {}
        self._texts: defaultdict[str, TimelineTexts] = defaultdict(TimelineTexts)
        self._reports: dict[str, RenditionReport] = {}
        # By rendition and whether it is a delta update.
        self._low: dict[tuple[str, bool], CachedPlaylist] = {}
        self._normal: dict[str, tuple[Timeline, CachedPlaylist]] = {}

    def update(self, timelines: Mapping[str, Timeline]) -> None:
        """Replace the timelines of some renditions."""
        self._timelines.update(timelines)
        for name, timeline in timelines.items():
            if timeline.newest is None:
                continue
            if name not in self._reports:
                # In one order everywhere, so that all processes render the same texts.
                names = sorted([*self._reports, name])
                reports = self._reports
                self._reports = {each: reports[each] for each in names if each in reports}
            self._reports[name] = timeline.report(f"../{name}/index.m3u8")
        self._low.clear()  # each playlist reports on all renditions

    def timeline(self, rendition: str) -> Timeline | None:
        """Return the timeline of a rendition, if there is one."""
        return self._timelines.get(rendition)

    def playlist(
        self, rendition: str, *, low_latency: bool, skip: bool = False
    ) -> CachedPlaylist | None:
        """Return the playlist of a rendition; with `skip` as a delta update, where that pays.

        Return None if it lists nothing yet.
        """
        timeline = self._timelines.get(rendition)
        if timeline is None:
            return None
        if low_latency and self.low_latency:
            return self._low_latency(rendition, timeline, skip=skip)
        if not timeline.count:
            return None
        cached = self._normal.get(rendition)
        if cached is None or cached[0].ended != timeline.ended or not timeline.continues(cached[0]):
            text = self._texts[rendition].render(timeline, low_latency=False)
            cached = self._normal[rendition] = timeline, CachedPlaylist.from_text(text)
        return cached[1]

    def _low_latency(
        self, rendition: str, timeline: Timeline, *, skip: bool
    ) -> CachedPlaylist | None:
        if timeline.newest is None:
            return None
        cached = self._low.get((rendition, skip))
        if cached is None:
            # The progress of the other renditions (4.4.5.4).
            reports = [report for name, report in self._reports.items() if name != rendition]
            text = self._texts[rendition].render(
                timeline, low_latency=True, skip=skip, reports=reports
            )
            cached = self._low[rendition, skip] = CachedPlaylist.from_text(text)
        return cached
