"""What is told of a film while it is made: how far it is never falls, and how long is about true.

Measured by the clock: a machine that does something else besides makes it wrong.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.e2e.service import SCALE
from tests.support.engine.upload_files import film
from tests.support.transcode.transcode_fixture import Shop, now_us, shop
from transcode.vod.core_budget import Cores
from transcode.vod.job import VideoTranscoder
from transcode.vod.worker_pool import TranscodeWorkers

pytestmark = [pytest.mark.anyio, pytest.mark.prove]

_SECONDS: Final = 60
_LOOK: Final = 0.1  # seconds between two looks
_OFF: Final = 0.3  # of what is really left, from the middle on
# It is told in whole seconds, and anew about each second and a half.
_GRAIN: Final = 2.5
PATIENCE: Final = 300 * SCALE
_CODING: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-sc_threshold", "0")
# What decides how a film is made: in stretches beside its own packets, in stretches alone, at once.
_FILMS: Final = {
    "own.mp4": (*_CODING, "-g", "50", "-keyint_min", "50", "-c:a", "aac"),
    "sparse.mkv": (*_CODING, "-g", "150", "-keyint_min", "150", "-c:a", "libmp3lame"),
    "whole.ts": (*_CODING, "-g", "150", "-keyint_min", "150", "-c:a", "libmp3lame"),
}


class Told(msgspec.Struct, frozen=True):
    """What was told at a moment: seconds of the clock, percent, seconds left."""

    at: float
    progress: int
    eta: int


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[Shop]:
    async with shop(tmp_path / "data") as opened:
        yield opened


async def watched(house: Shop, video: int) -> list[Told]:
    """What is told of a video until it is completed; the last one is of that moment."""
    found: list[Told] = []
    async with asyncio.timeout(PATIENCE):
        while True:
            status = await house.status(video)
            found.append(Told(time.monotonic(), status.progress, status.eta))
            if status.state == "completed":
                return found
            assert status.state in ("queued", "transcoding")
            await asyncio.sleep(_LOOK)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", list(_FILMS))
async def test_what_is_told_of_a_film_under_way_comes_true(
    house: Shop, tmp_path: Path, name: str, workers: int, proof: Proof
) -> None:
    path = film(tmp_path / name, *_FILMS[name], seconds=_SECONDS, size=(854, 480))
    names = iter(f"owner {number}" for number in range(1000))
    transcoder = VideoTranscoder(
        jobs=house.catalog.jobs,
        spans=house.catalog.spans,
        transcoding=house.catalog.transcoding,
        objects=house.objects,
        path_of=house.objects.path,
        now_us=now_us,
        cores=Cores(workers),
    )
    crew = TranscodeWorkers(transcoder, size=workers, new_owner=lambda: next(names))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(crew.run())
        told = await watched(house, (await house.add(path)).video.id)
        running.cancel()
    end = told[-1].at
    assert (told[-1].progress, told[-1].eta) == (100, 0)
    assert all(a.progress <= b.progress for a, b in pairwise(told))
    begun = next(each.at for each in told if each.progress)
    half = [each for each in told if each.at >= (begun + end) / 2 and each.progress < 100]
    assert half
    off = [abs(each.eta - (end - each.at)) - _OFF * (end - each.at) for each in half]
    assert max(off) <= _GRAIN * SCALE, [(end - each.at, each.eta, each.progress) for each in half]
    proof(
        f"{name}, {_SECONDS} s, {workers} at once: progress, and seconds left from the middle on",
        f"never fell; at most {max(off):.1f} s beyond 30 % off",
        f"never falls; 30 %, and {_GRAIN} s",
    )
