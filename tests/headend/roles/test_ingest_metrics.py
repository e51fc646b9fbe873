"""The metrics of an ingest: what its listener and its runs counted."""

import re
from pathlib import Path

from headend.roles.ingest_metrics import IngestMetrics
from ingest.server.listener import RtmpListener
from media.loop_lag import LoopLag
from tests.support.headend.idle_ingest import idle_ingest
from tests.support.transcode.live_runs import STREAM
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding


def figures(listener: RtmpListener, transcoding: LiveTranscoding, lag: LoopLag) -> dict[str, float]:
    """Return the metrics by name and labels."""
    text = IngestMetrics(listener, transcoding, lag).text().decode()
    lines = re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


async def test_a_scrape_shows_what_was_counted_until_then(tmp_path: Path) -> None:
    lag = LoopLag()
    async with idle_ingest(tmp_path) as (listener, transcoding):
        before = figures(listener, transcoding, lag)
        assert (before["headend_runs"], before["headend_ingest_bytes_total"]) == (0, 0)
        listener.counters.bytes_in += 7
        listener.counters.publishers += 1
        listener.counters.count_refusal("unknown key")
        lag.seconds, lag.count = 1.5, 2
        after = figures(listener, transcoding, lag)
    assert after["headend_ingest_bytes_total"] == 7
    assert after["headend_ingest_publishers"] == 1
    assert after['headend_ingest_refusals_total{cause="unknown key"}'] == 1
    assert after["headend_event_loop_lag_seconds_total"] == 1.5
    assert after["headend_event_loop_lags_total"] == 2


async def test_a_run_has_its_figures_while_it_is_open(tmp_path: Path) -> None:
    async with idle_ingest(tmp_path) as (listener, transcoding):
        async with transcoding.run(
            stream=STREAM, active=frozenset(), settings=RunSettings(), notify=lambda: None
        ) as run:
            run.metrics.packets = 5
            run.metrics.dropped = 2
            run.metrics.rung_cpu_seconds["720p"] = 0.5
            found = figures(listener, transcoding, LoopLag())
        left = figures(listener, transcoding, LoopLag())
    assert found["headend_runs"] == 1
    assert found[f'headend_run_packets_total{{stream="{STREAM}"}}'] == 5
    assert found[f'headend_run_dropped_packets_total{{stream="{STREAM}"}}'] == 2
    assert found[f'headend_rung_cpu_seconds_total{{rendition="720p",stream="{STREAM}"}}'] == 0.5
    assert left["headend_runs"] == 0
    assert not any(STREAM in name for name in left)
