"""Prometheus metrics of the ingest role: connections, links, runs, engines and the event loop."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headend.roles.edge_metrics import counter, gauge
from ingest.server.listener import RtmpListener
from media.loop_lag import LoopLag
from transcode.live.live_run import LiveRun
from transcode.live.service import LiveTranscoding

_DIRECTION: Final = ("direction",)
_RUN: Final = ("stream",)
_RUNG: Final = ("stream", "rendition")


class IngestMetrics(Collector):
    """Collects the counters of the listener and the runs on each scrape."""

    def __init__(self, listener: RtmpListener, transcoding: LiveTranscoding, lag: LoopLag) -> None:
        self._listener = listener
        self._transcoding = transcoding
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families."""
        tally = self._listener.counters
        yield gauge("headend_ingest_connections", "Open RTMP connections", tally.connections)
        yield gauge("headend_ingest_publishers", "Encoders that publish now", tally.publishers)
        yield counter("headend_ingest_bytes", "Bytes received from encoders", tally.bytes_in)
        refused = CounterMetricFamily(
            "headend_ingest_refusals", "Connections refused or closed", labels=("cause",)
        )
        for cause, count in sorted(tally.refused.items()):
            refused.add_metric((cause,), count)
        yield refused
        yield counter(
            "headend_event_loop_lag_seconds",
            "Time in which the event loop was held up",
            self._lag.seconds,
        )
        yield counter("headend_event_loop_lags", "How often it was held up", self._lag.count)
        offsets = GaugeMetricFamily(
            "headend_source_offset_seconds",
            "How far an encoder is behind the one that it is compared with",
            labels=("stream", "slot"),
        )
        for (stream, slot), behind_ms in self._listener.streams.behind_ms().items():
            offsets.add_metric((stream, str(slot)), behind_ms / 1000)
        yield offsets
        yield from _links(self._listener)
        yield from _runs(self._transcoding.runs)


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
    memory = None if listener.relay_client is None else listener.relay_client.memory
    yield gauge(
        "headend_relay_kept_bytes",
        "Media kept of relayed encoders",
        None if memory is None else memory.size_bytes,
    )
    yield counter(
        "headend_relay_dropped_groups",
        "Of these, dropped for memory",
        None if memory is None else memory.dropped_groups,
    )


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
    yield gauge("headend_runs", "Runs that are open", len(runs))
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
