"""Prometheus metrics of the edge in Redis: what a process publishes of its streams, and follows."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from delivery.edge.shared import Edges


class EdgeMetrics(Collector):
    """Collects the counters of a process' edges on each scrape; they are empty without Redis."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    def collect(self) -> Iterable[Metric]:
        """Yield the metric families."""
        publishing, remote = self._edges.publishing, self._edges.remote
        yield gauge(
            "headend_edge_published",
            "1 while Redis takes what this process publishes",
            None if publishing is None else float(publishing.is_reached),
        )
        yield gauge(
            "headend_edge_queued_bytes",
            "Parts that wait for Redis",
            None if publishing is None else publishing.queued_bytes,
        )
        yield counter(
            "headend_edge_written_bytes",
            "Bytes of parts written to Redis",
            None if publishing is None else publishing.written_bytes,
        )
        yield counter(
            "headend_edge_dropped_parts",
            "Parts dropped since Redis was too slow or away",
            None if publishing is None else publishing.dropped_parts,
        )
        yield gauge(
            "headend_edge_followed_streams",
            "Streams of other processes that have viewers here",
            None if remote is None else len(remote.followed),
        )
        yield counter(
            "headend_edge_read_bytes",
            "Bytes of parts read from Redis",
            None if remote is None else remote.read_bytes,
        )
        yield counter(
            "headend_edge_failed_reads",
            "Parts that Redis did not give",
            None if remote is None else remote.failed_reads,
        )


def gauge(name: str, text: str, value: float | None) -> Metric:
    """Return a gauge without labels; None: without a value."""
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric((), value)
    return family


def counter(name: str, text: str, value: float | None) -> Metric:
    """Return a counter without labels; None: without a value."""
    family = CounterMetricFamily(name, text)
    if value is not None:
        family.add_metric((), value)
    return family
