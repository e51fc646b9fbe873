"""The counters and gauges of one run, for `/metrics` and for load shedding.

Pure: the time is an argument, in seconds of a monotonic clock. An engine counts from 0, so the
sums over all engines of a run are kept here.
"""

from collections.abc import Sequence
from typing import Final

from media.packet import MediaPacket
from media.ticks import MILLISECONDS, rescale
from media.track import Track, VideoTrack
from transcode.live.load_shedding import KEEPING_PACE, NORMAL_LAG_SECONDS, RunLoad
from transcode.protocol.messages import Progress

# The weight of the newest report in a mean, which so covers about the last three seconds.
_NEWEST: Final = 0.4
# Two reports closer together are no measure of the pace.
_MIN_SECONDS: Final = 0.2
# Packets of a track are closer together than this, in ms: even a slide show sends one a second. A
# longer step is a hole or a jump of the source's clock, for which nothing has to be made.
_MOST_STEP: Final = 2_000


class RunMetrics:
    """The metrics of one run; rates and gauges are 0 until an engine has reported."""

    def __init__(self) -> None:
        self.packets = 0
        self.pictures = 0
        self.bytes_in = 0
        self.dropped = 0
        self.deaths = 0
        self.segments = 0
        self.bytes_out = 0
        self.sheds = 0
        self.lag = 0.0  # seconds that the newest media are behind the publisher
        self.pace = 0.0  # seconds of media made in a second; 0 until it is known for the source
        self.cores = 0.0  # CPU that the engine gets
        self.frame_rate = 0.0  # frames that the engine reads in a second
        self.bit_rate = 0.0  # that the source sends
        self.memory_bytes = 0
        self.cpu_seconds = 0.0
        self.rung_cpu_seconds: dict[str, float] = {}
        self.costs: dict[str, float] = {}  # cores for a second of media, by encoded rung
        self.off: frozenset[str] = frozenset()
        # The decode times of the leading track since the timeline began or jumped, in ms: an
        # encoder may stamp the sound by another clock, and presentation times reach hours.
        self._picture_leads = True
        self._first: int | None = None
        self._newest = 0
        self._last_report: tuple[float, Progress] | None = None
        self._bytes_before = 0

    def count_packets(self, packets: Sequence[MediaPacket]) -> None:
        """Count packets that the source sent."""
        self.packets += len(packets)
        for packet in packets:
            self.bytes_in += len(packet.data)
            picture = isinstance(packet.track, VideoTrack)
            self.pictures += picture
            if picture is not self._picture_leads:
                continue
            at = rescale(packet.dts, packet.track.scale, MILLISECONDS)
            if self._first is None or abs(at - self._newest) > _MOST_STEP:
                self._first = self._newest = at
            self._newest = max(self._newest, at)

    def begin_source(self, tracks: tuple[Track, ...]) -> None:
        """Begin the timeline of a new source: its picture leads if it has one, else its sound."""
        self._picture_leads = any(isinstance(track, VideoTrack) for track in tracks)
        self.begin_timeline()

    def begin_timeline(self) -> None:
        """Begin a timeline, because the source is new or starts anew.

        The newest seconds that a backup has buffered come in at once, so the run lags until it has
        caught up, and the pace of the source before does not predict whether it will.
        """
        self._first = None
        self.pace = 0.0

    def idle(self) -> None:
        """Note that no source is on air: there is no lag."""
        self.begin_timeline()
        self.lag = 0.0

    def begin_engine(self) -> None:
        """Note that a new engine counts from 0."""
        self._last_report = None
        self.pace = self.cores = 0.0

    def update(self, progress: Progress, now: float, *, current: bool) -> None:
        """Update from an engine's report; `current` if it is about the newest source."""
        previous, self._last_report = self._last_report, (now, progress)
        self.memory_bytes = progress.memory_bytes
        if current and self._first is not None:
            # What was made before a jump of the source's clock does not count for the time after
            # it.
            made_ms = max(progress.made, self._first) if progress.made else self._first
            self.lag = max(0.0, (self._newest - made_ms) / 1000)
        old = Progress(epoch=-1, taken=0, made=0, frames=0, cpu_ms=0, memory_bytes=0)
        seconds = 0.0
        if previous is not None:
            seconds, old = now - previous[0], previous[1]
        self._count_cpu(progress, old)
        if seconds >= _MIN_SECONDS:
            received = self.bytes_in - self._bytes_before
            self.bit_rate = _mean(self.bit_rate, 8 * received / seconds)
        self._bytes_before = self.bytes_in
        if seconds >= _MIN_SECONDS and old.epoch == progress.epoch and old.made and progress.made:
            self._measure(progress, old, seconds)

    def load(self, stream: str, encoded: tuple[str, ...], *, min_rungs: int) -> RunLoad:
        """Return the run's load; `encoded` are the rungs that an encoder makes."""
        return RunLoad(
            stream=stream,
            lag=self.lag,
            pace=self.pace or KEEPING_PACE,
            cores=self.cores,
            costs={name: self.costs[name] for name in encoded if name in self.costs},
            off=self.off.intersection(encoded),
            min_rungs=min_rungs,
        )

    def _count_cpu(self, new: Progress, old: Progress) -> None:
        self.cpu_seconds += (new.cpu_ms - old.cpu_ms) / 1000
        for name, used in new.rung_cpu_ms.items():
            passed = (used - old.rung_cpu_ms.get(name, 0)) / 1000
            self.rung_cpu_seconds[name] = self.rung_cpu_seconds.get(name, 0.0) + passed

    def _measure(self, new: Progress, old: Progress, seconds: float) -> None:
        media = (new.made - old.made) / 1000
        if media < 0 or (self._first is not None and old.made < self._first):
            return  # the source's clock jumped between the two reports
        pace = media / seconds
        if self._first is not None and self.lag <= NORMAL_LAG_SECONDS:
            pace = max(pace, 1.0)  # a source that stalls does not make the engine slow
        self.pace = _mean(self.pace, pace)
        self.cores = _mean(self.cores, (new.cpu_ms - old.cpu_ms) / 1000 / seconds)
        self.frame_rate = _mean(self.frame_rate, (new.frames - old.frames) / seconds)
        if media <= 0:
            return
        for name, used in new.rung_cpu_ms.items():
            passed = (used - old.rung_cpu_ms.get(name, 0)) / 1000
            if passed > 0:  # a rung that is off keeps its cost
                self.costs[name] = _mean(self.costs.get(name, 0.0), passed / media)


def _mean(before: float, newest: float) -> float:
    return newest if before == 0.0 else before + _NEWEST * (newest - before)
