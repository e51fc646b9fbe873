"""Prometheus metrics of the ingest role: connections, links, runs, engines and the event loop."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.server.listener import RtmpListener
from media.loop_lag import LoopLag
from transcode.live.live_run import LiveRun
from transcode.live.service import LiveTranscoding

__all__ = ["IngestMetrics"]

_DIRECTION: Final = ("direction",)
_RUN: Final = ("stream",)
_RUNG: Final = ("stream", "rendition")


class IngestMetrics(Collector):
    """Collects the counters of the listener and the runs on each scrape.

    The text has the metrics of `others`, too.
    """

    def __init__(
        self,
        listener: RtmpListener,
        transcoding: LiveTranscoding,
        lag: LoopLag,
        *others: Collector,
    ) -> None:
        self._listener = listener
        self._transcoding = transcoding
        self._lag = lag
        self._registry = CollectorRegistry(auto_describe=False)
        for collector in (self, *others):
            self._registry.register(collector)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families."""
        tally = self._listener.counters
        yield _gauge("headend_ingest_connections", "Open RTMP connections", tally.connections)
        yield _gauge("headend_ingest_publishers", "Encoders that publish now", tally.publishers)
        received = CounterMetricFamily("headend_ingest_bytes", "Bytes received from encoders")
        received.add_metric((), tally.bytes_in)
        yield received
        refused = CounterMetricFamily(
            "headend_ingest_refusals", "Connections refused or closed", labels=("cause",)
        )
        for cause, count in sorted(tally.refused.items()):
            refused.add_metric((cause,), count)
        yield refused
        held_up = CounterMetricFamily(
            "headend_event_loop_lag_seconds", "Time in which the event loop was held up"
        )
        held_up.add_metric((), self._lag.seconds)
        yield held_up
        lags = CounterMetricFamily("headend_event_loop_lags", "How often it was held up")
        lags.add_metric((), self._lag.count)
        yield lags
        yield from _links(self._listener)
        yield from _runs(self._transcoding.runs)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _links(listener: RtmpListener) -> Iterable[Metric]:
    """Yield the metrics of the links to other hosts, `in`: that relay to this one, and `out`."""
    ends = (("in", listener.relay), ("out", listener.relay_client))
    links = GaugeMetricFamily("headend_relay_links", "Links to hosts", labels=_DIRECTION)
    encoders = GaugeMetricFamily("headend_relay_encoders", "Encoders relayed", labels=_DIRECTION)
    received = CounterMetricFamily("headend_relay_bytes_in", "Bytes received", labels=_DIRECTION)
    sent = CounterMetricFamily("headend_relay_bytes_out", "Bytes sent", labels=_DIRECTION)
    lost = CounterMetricFamily("headend_relay_links_lost", "Links lost", labels=_DIRECTION)
    for direction, end in ends:
        if end is not None:
            links.add_metric((direction,), len(end.links))
            encoders.add_metric((direction,), end.encoders)
            received.add_metric((direction,), end.counters.bytes_in)
            sent.add_metric((direction,), end.counters.bytes_out)
            lost.add_metric((direction,), end.counters.lost)
    yield from (links, encoders, received, sent, lost)
    kept_bytes = GaugeMetricFamily("headend_relay_kept_bytes", "Media kept of relayed encoders")
    dropped = CounterMetricFamily("headend_relay_dropped_groups", "Of these, dropped for memory")
    if listener.relay_client is not None:
        kept_bytes.add_metric((), listener.relay_client.memory.size_bytes)
        dropped.add_metric((), listener.relay_client.memory.dropped_groups)
    yield from (kept_bytes, dropped)


_Counter, _Gauge = CounterMetricFamily, GaugeMetricFamily
_Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]
_READ: Final[tuple[tuple[_Kind, str, str, Callable[[LiveRun], float]], ...]] = (
    (_Counter, "headend_run_packets", "Packets sent by encoders", lambda r: r.metrics.packets),
    (_Counter, "headend_run_pictures", "Of these, pictures", lambda r: r.metrics.pictures),
    (_Counter, "headend_run_bytes", "Bytes of these packets", lambda r: r.metrics.bytes_in),
    (
        _Counter,
        "headend_run_dropped_packets",
        "Packets dropped for a slow engine",
        lambda r: r.metrics.dropped,
    ),
    (_Counter, "headend_run_engine_deaths", "Engines lost", lambda r: r.metrics.deaths),
    (_Counter, "headend_run_segments", "Segments made, all rungs", lambda r: r.metrics.segments),
    (_Counter, "headend_run_media_bytes", "Bytes of these segments", lambda r: r.metrics.bytes_out),
    (_Counter, "headend_run_rungs_shed", "Rungs shed under overload", lambda r: r.metrics.sheds),
    (
        _Gauge,
        "headend_run_frame_rate",
        "Pictures taken in a second",
        lambda r: r.metrics.frame_rate,
    ),
    (_Gauge, "headend_run_bit_rate", "Bits sent by the encoder", lambda r: r.metrics.bit_rate),
    (
        _Gauge,
        "headend_run_lag_seconds",
        "How far the newest media are behind the encoder",
        lambda r: r.metrics.lag,
    ),
    (_Gauge, "headend_run_pace", "Seconds of media made in a second", lambda r: r.metrics.pace),
    (
        _Gauge,
        "headend_run_queue_bytes",
        "Packets waiting for the engine",
        lambda r: r.backlog.bytes,
    ),
    (
        _Counter,
        "headend_engine_cpu_seconds",
        "CPU time of the run's engines",
        lambda r: r.metrics.cpu_seconds,
    ),
    (
        _Gauge,
        "headend_engine_memory_bytes",
        "Resident memory of the engine",
        lambda r: r.metrics.memory_bytes,
    ),
)


def _runs(runs: dict[str, LiveRun]) -> Iterable[Metric]:
    ordered = sorted(runs.items())
    yield _gauge("headend_runs", "Runs that are open", len(runs))
    for kind, name, text, read in _READ:
        family = kind(name, text, labels=_RUN)
        for stream, run in ordered:
            family.add_metric((stream,), read(run))
        yield family
    made = GaugeMetricFamily("headend_rung_made", "1 while the rung is made", labels=_RUNG)
    cpu = CounterMetricFamily("headend_rung_cpu_seconds", "CPU time of its encoder", labels=_RUNG)
    for name, run in ordered:
        for rung, on in run.rungs.items():
            made.add_metric((name, rung), on)
        for rung, seconds in sorted(run.metrics.rung_cpu_seconds.items()):
            cpu.add_metric((name, rung), seconds)
    yield from (made, cpu)
