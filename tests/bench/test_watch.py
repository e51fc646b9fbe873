"""The cost of watching two encoders, averaged over ten minutes of 1080p."""

import asyncio
from pathlib import Path

import pytest

from bench.ladder.clips import chosen, make
from bench.watch.__main__ import MOST_CPU_MS
from bench.watch.measure import watched
from bench.watch.two_encoders import CLIP_SECONDS, SentMedia
from tests.conftest import Proof
from tests.support.made_media import CACHE

_MINUTES = 10
_MOST_MB = {False: 80.0, True: 145.0}  # while it decodes two sources of 1080p


@pytest.mark.prove
def test_a_watch_costs_little_of_a_core(proof: Proof) -> None:
    (clip,) = chosen(["talk"])
    path = make(clip, CLIP_SECONDS, Path(CACHE) / "bench")
    encoders = [SentMedia(number, path, 60 * _MINUTES) for number in (0, 1)]
    for judges, most in MOST_CPU_MS.items():
        cost = asyncio.run(watched(encoders, judges=judges))
        what = f"two encoders of 1080p watched {'with pictures' if judges else 'by sound'}"
        proof(
            f"{what}: CPU of a second, memory",
            f"{cost.engine_ms:.1f} ms, and {cost.service_ms:.1f} of the service; "
            f"{cost.peak_mb:.0f} MB at most, {cost.memory_mb:.0f} after",
            f"{most:.0f} ms",
        )
        assert cost.engine_ms + cost.service_ms <= most
        assert cost.peak_mb <= _MOST_MB[judges]
        assert cost.wrong_ms <= 1000 / 30
