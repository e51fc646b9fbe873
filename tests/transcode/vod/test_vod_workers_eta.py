"""Progress and time left of a video in transcoding: progress never falls, the time is about right.

Measured with the wall clock: a machine with other work makes it fail.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from storage.workers.worker_pool import WorkerPool
from tests.conftest import Proof
from tests.support.e2e.service import SCALE
from tests.support.engine.upload_files import film
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture
from transcode.vod.core_budget import CoreBudget
from transcode.vod.job import VideoTranscoder

pytestmark = pytest.mark.prove

_SECONDS: Final = 60
_LOOK: Final = 0.1  # seconds between two looks
_OFF: Final = 0.3  # of what is really left, from the middle on
# The time left is in whole seconds, and updated about every second and a half.
_GRAIN: Final = 2.5
PATIENCE: Final = 300 * SCALE
_CODING: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-sc_threshold", "0")
# How each film is transcoded: in spans beside its own packets, in spans only, in one piece.
_FILMS: Final = {
    "own.mp4": (*_CODING, "-g", "50", "-keyint_min", "50", "-c:a", "aac"),
    "sparse.mkv": (*_CODING, "-g", "150", "-keyint_min", "150", "-c:a", "libmp3lame"),
    "whole.ts": (*_CODING, "-g", "150", "-keyint_min", "150", "-c:a", "libmp3lame"),
}


class ProgressSample(msgspec.Struct, frozen=True):
    """One sample: seconds of the clock, percent, seconds left."""

    at: float
    progress: int
    eta: int


@pytest.fixture
async def vod(tmp_path: Path) -> AsyncGenerator[VodFixture]:
    async with vod_fixture(tmp_path / "data") as opened:
        yield opened


async def watched(vod: VodFixture, video: int) -> list[ProgressSample]:
    """Samples of a video's progress until it is completed; the last one is taken then."""
    progress: list[ProgressSample] = []
    async with asyncio.timeout(PATIENCE):
        while True:
            status = await vod.status(video)
            progress.append(ProgressSample(time.monotonic(), status.progress, status.eta))
            if status.state == "completed":
                return progress
            assert status.state in ("queued", "transcoding")
            await asyncio.sleep(_LOOK)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", list(_FILMS))
async def test_the_estimates_for_a_film_in_progress_are_right(
    vod: VodFixture, tmp_path: Path, name: str, workers: int, proof: Proof
) -> None:
    path = film(tmp_path / name, *_FILMS[name], seconds=_SECONDS, size=(854, 480))
    transcoder = VideoTranscoder(replace(vod.context, cores=CoreBudget(workers)))
    crew = WorkerPool(transcoder, size=workers)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(crew.run())
        reports = await watched(vod, (await vod.add(path)).video.id)
        running.cancel()
    end = reports[-1].at
    assert (reports[-1].progress, reports[-1].eta) == (100, 0)
    assert all(a.progress <= b.progress for a, b in pairwise(reports))
    begun = next(each.at for each in reports if each.progress)
    half = [each for each in reports if each.at >= (begun + end) / 2 and each.progress < 100]
    assert half
    off = [abs(each.eta - (end - each.at)) - _OFF * (end - each.at) for each in half]
    assert max(off) <= _GRAIN * SCALE, [(end - each.at, each.eta, each.progress) for each in half]
    proof(
        f"{name}, {_SECONDS} s, {workers} at once: progress, and seconds left from the middle on",
        f"never fell; at most {max(off):.1f} s beyond 30 % off",
        f"never falls; 30 %, and {_GRAIN} s",
    )
