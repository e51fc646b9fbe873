"""The figures that `/metrics` shows, collected when they are asked for (Prometheus text format)."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.listener import Listener
from transcode.live import LiveRun, LiveTranscoding

__all__ = ["Telemetry"]

_RUN: Final = ("stream",)


class Telemetry(Collector):
    """Reads the listener's and the runs' own counters; keeps none itself."""

    def __init__(self, listener: Listener, transcoding: LiveTranscoding) -> None:
        self._listener = listener
        self._transcoding = transcoding
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all figures as they stand."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the figures, one family after the other."""
        tally = self._listener.tally
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
        yield from _runs(self._transcoding.runs)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _runs(runs: dict[str, LiveRun]) -> Iterable[Metric]:
    packets = CounterMetricFamily("headend_run_packets", "Packets offered", labels=_RUN)
    dropped = CounterMetricFamily(
        "headend_run_dropped_packets", "Packets dropped for a slow engine", labels=_RUN
    )
    deaths = CounterMetricFamily("headend_run_engine_deaths", "Engines lost", labels=_RUN)
    segments = CounterMetricFamily("headend_run_segments", "Segments made, all rungs", labels=_RUN)
    lag = GaugeMetricFamily(
        "headend_run_lag_seconds", "Media taken by the engine and not given out yet", labels=_RUN
    )
    cpu = CounterMetricFamily("headend_engine_cpu_seconds", "CPU time of the engine", labels=_RUN)
    memory = GaugeMetricFamily(
        "headend_engine_memory_bytes", "Resident memory of the engine", labels=_RUN
    )
    for name, run in sorted(runs.items()):
        figures = run.figures
        packets.add_metric((name,), figures.packets)
        dropped.add_metric((name,), figures.dropped)
        deaths.add_metric((name,), figures.deaths)
        segments.add_metric((name,), figures.segments)
        if (progress := figures.progress) is not None:
            lag.add_metric((name,), max(0, progress.taken - progress.made) / 1000)
            cpu.add_metric((name,), progress.cpu_ms / 1000)
            memory.add_metric((name,), progress.memory_bytes)
    yield _gauge("headend_runs", "Runs that are open", len(runs))
    yield from (packets, dropped, deaths, segments, lag, cpu, memory)
