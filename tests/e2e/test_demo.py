"""The demo: a newcomer sees a picture within seconds, and its sound fits it in every rung."""

import time
from pathlib import Path

import av
import pytest

from tests.browser import Chromium
from tests.conftest import Proof
from tests.e2e.service import SCALE, service
from tests.e2e.viewing import Collected, collect, until
from tests.testcard import beeps, flashes

pytestmark = pytest.mark.e2e

RUNGS = ("720p", "480p", "360p")


def flashes_in(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        return flashes(container.decode(video=0))


def beeps_in(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        return beeps(container.decode(audio=0))


def test_the_demo_plays_within_ten_seconds_and_in_sync(
    tmp_path: Path, browser: Chromium, proof: Proof
) -> None:
    began = time.monotonic()
    with service(tmp_path / "data", role="demo") as demo:
        viewer = browser.open(demo.watch)
        viewer.wait(lambda sample: sample.frames > 0, 20 * SCALE, "a picture")
        waited = time.monotonic() - began
        assert waited <= 10 * SCALE
        proof("the demo's first picture in Chromium, from its start", f"{waited:.1f} s", "10 s")
        held: dict[str, Collected] = {}

        def enough() -> bool:
            collect(demo.playlist, held)
            return len(held["audio"].segments) >= 4

        until(enough, within=20, what="four segments")
    files = {name: what.file(tmp_path / f"{name}.mp4") for name, what in held.items()}
    heard = beeps_in(files["audio"])
    assert len(heard) >= 6
    offsets: list[float] = []
    for rung in RUNGS:
        for flash in flashes_in(files[rung]):
            offsets.append(min((flash - beep for beep in heard), key=abs))
        assert len(offsets) >= 6
        assert max(abs(offset) for offset in offsets) < 0.045
    worst = max(offsets, key=abs)
    proof("picture against sound, worst of all rungs", f"{worst * 1000:+.0f} ms", "under 45 ms")
