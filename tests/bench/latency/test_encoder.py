"""The encoder burns the time of day into its pictures, until it is stopped."""

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import av
import pytest

from bench.latency.clock import WRAP_MS, read
from bench.latency.encoder import PROFILES
from tests.support.waiting import SCALE, poll

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]


def _times(path: Path) -> list[int]:
    """Return the times that the cells of a file's pictures show."""
    times: list[int | None] = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            plane = frame.planes[0]
            times.append(read(memoryview(plane), plane.line_size, frame.width, frame.height))
    assert None not in times
    return [time for time in times if time is not None]


@pytest.mark.parametrize("profile", PROFILES)
def test_pictures_show_when_they_were_drawn(profile: str, tmp_path: Path) -> None:
    file = tmp_path / "clock.flv"
    began = int(time.time() * 1000)
    with subprocess.Popen(
        [sys.executable, "-m", "bench.latency.encoder", str(file), "--profile", profile],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    ) as encoder:  # fmt: skip
        assert encoder.stdout is not None
        assert json.loads(encoder.stdout.readline()) == {"event": "accepted"}
        poll(lambda: file.stat().st_size > 100_000, what="pictures")
        encoder.send_signal(signal.SIGTERM)
        ended = json.loads(encoder.stdout.readline())
        assert encoder.wait(20 * SCALE) == 0
    over = int(time.time() * 1000)
    times = _times(file)
    assert ended["event"] == "ended"
    # Those that x264 still held when it was stopped are not sent.
    assert len(times) == ended["pictures"] > 0
    assert ended["delay"] >= 0
    assert all(before < after for before, after in pairwise(times))
    assert (times[0] - began) % WRAP_MS <= (times[-1] - began) % WRAP_MS <= over - began
