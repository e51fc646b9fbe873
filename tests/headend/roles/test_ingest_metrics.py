"""The metrics of an ingest: the counters of its listener and its runs."""

import asyncio
import re
from pathlib import Path

import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from headend.http.metrics import metrics_text
from headend.roles.ingest_metrics import IngestMetrics
from ingest.publishing.admission import AdmissionLimits
from ingest.publishing.service import PublishingService
from ingest.rtmp.limits import Limits
from ingest.server.listener import RtmpListener
from ingest.stream.ports import Grant
from media.loop_lag import LoopLag
from media.stream_keys import StreamKey
from storage.objects.disk import DiskObjects
from tests.support.headend.idle_ingest import idle_ingest
from tests.support.ingest.relay_hosts import RelayHost, installation
from tests.support.ingest.simulated_encoders import BACKUP, PRIMARY
from tests.support.ingest.virtual_clock import virtual_sockets
from tests.support.transcode.live_runs import STREAM
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding


def figures(listener: RtmpListener, transcoding: LiveTranscoding, lag: LoopLag) -> dict[str, float]:
    """Return the metrics by name and labels."""
    text = metrics_text(IngestMetrics(listener, transcoding, lag))().decode()
    lines = re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def listener_of(host: RelayHost) -> RtmpListener:
    """Return a listener with the ends of a host's links."""
    return RtmpListener(
        limits=Limits(),
        publishing=PublishingService(AdmissionLimits(), NoKeys(), host.streams, host.lag),
        tasks=host.tasks,
        relay=host.relay,
        relay_client=host.client,
    )


class NoKeys:
    """A directory without a key."""

    async def grant(self, application: str, key: StreamKey) -> Grant | None:
        return None


async def test_a_scrape_shows_what_was_counted_until_then(tmp_path: Path) -> None:
    lag = LoopLag()
    async with idle_ingest(tmp_path) as (listener, transcoding):
        before = figures(listener, transcoding, lag)
        assert (before["headend_runs"], before["headend_ingest_bytes_total"]) == (0, 0)
        listener.counters.bytes_in += 7
        listener.counters.publishers += 1
        listener.counters.refused["unknown key"] += 1
        lag.seconds, lag.count = 1.5, 2
        after = figures(listener, transcoding, lag)
    assert after["headend_ingest_bytes_total"] == 7
    assert after["headend_ingest_publishers"] == 1
    assert after['headend_ingest_refusals_total{cause="unknown key"}'] == 1
    assert after["headend_event_loop_lag_seconds_total"] == 1.5
    assert after["headend_event_loop_lags_total"] == 2


@virtual_sockets
async def test_links_to_other_hosts_have_their_figures(tmp_path: Path) -> None:
    async with installation() as hosts:
        owner, other = await hosts.start(), await hosts.start()
        await owner.attach(BACKUP)
        await other.publish(PRIMARY)
        await asyncio.sleep(5)
        with DiskObjects(tmp_path) as objects:
            transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow())
            figures_of_hosts = [
                figures(listener_of(host), transcoding, LoopLag()) for host in (owner, other)
            ]
        at_owner, at_other = figures_of_hosts
        for name, count in (("links", 1), ("encoders", 1), ("links_lost_total", 0)):
            assert at_owner[f'headend_relay_{name}{{direction="in"}}'] == count
            assert at_other[f'headend_relay_{name}{{direction="out"}}'] == count
        sent = at_other['headend_relay_bytes_out_total{direction="out"}']
        assert sent > 1_000
        received = at_owner['headend_relay_bytes_in_total{direction="in"}']
        assert received == pytest.approx(sent, rel=0.1)  # the newest may be in transit
        assert at_owner["headend_relay_kept_bytes"] == 0
        assert at_other["headend_relay_kept_bytes"] == other.client.memory.size_bytes > 0
        for link in owner.links:
            link.drop("a cable was pulled out")
        assert owner.relay.counters.lost == 1


async def test_a_run_has_its_figures_while_it_is_open(tmp_path: Path) -> None:
    async with idle_ingest(tmp_path) as (listener, transcoding):
        async with transcoding.run(
            stream=STREAM, active=frozenset(), settings=RunSettings(), notify=lambda: None
        ) as run:
            run.metrics.packets = 5
            run.metrics.dropped = 2
            run.metrics.rung_cpu_seconds["720p"] = 0.5
            during = figures(listener, transcoding, LoopLag())
        afterwards = figures(listener, transcoding, LoopLag())
    assert during["headend_runs"] == 1
    assert during[f'headend_run_packets_total{{stream="{STREAM}"}}'] == 5
    assert during[f'headend_run_dropped_packets_total{{stream="{STREAM}"}}'] == 2
    assert during[f'headend_rung_cpu_seconds_total{{rendition="720p",stream="{STREAM}"}}'] == 0.5
    assert afterwards["headend_runs"] == 0
    assert not any(STREAM in name for name in afterwards)
