"""The page's script reads in a real browser what the encoder's clock drew, scaled and coded."""

import base64
from collections.abc import Generator
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import msgspec
import pytest
from av import VideoFrame

from bench.latency.clock import WRAP_MS, draw
from bench.latency.viewer import Presented
from tests.support.browser import Chromium, chromium
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
PROBE = (ROOT / "bench" / "latency" / "probe.js").read_text()
TIMES = [0x12345678 + 1000 * number for number in range(30)]


@pytest.fixture(scope="module")
def browser() -> Generator[Chromium]:
    with chromium("--autoplay-policy=no-user-gesture-required") as running:
        yield running


def _film(size: tuple[int, int], *, clock: bool = True) -> str:
    """Return a film of ten pictures a second as an address; drawn in 720p, scaled and coded."""
    body = BytesIO()
    with av.open(body, "w", format="mp4") as target:
        video = target.add_stream("libx264", rate=10)  # pyright: ignore[reportUnknownMemberType]  # PyAV's stubs leave **kwargs open
        context = video.codec_context
        context.width, context.height = size
        context.pix_fmt, context.time_base = "yuv420p", Fraction(1, 10)
        context.bit_rate = 200_000
        for number, time in enumerate(TIMES):
            picture = VideoFrame(1280, 720, "yuv420p")
            for plane in picture.planes:
                plane.update(b"\x80" * plane.buffer_size)
            if clock:
                plane = picture.planes[0]
                draw(memoryview(plane), plane.line_size, 1280, 720, time)
            scaled = picture.reformat(*size)
            scaled.pts, scaled.time_base = number, Fraction(1, 10)
            target.mux(video.encode(scaled))  # pyright: ignore[reportUnknownMemberType]  # as above
        target.mux(video.encode(None))  # pyright: ignore[reportUnknownMemberType]  # as above
    return f"data:video/mp4;base64,{base64.b64encode(body.getvalue()).decode()}"


def _play(browser: Chromium, film: str) -> Presented:
    """Play a film to its end and return what the probe collected."""
    page = f"data:text/html,<video muted autoplay src='{film}'></video>"
    viewer = browser.open(page, before=PROBE)
    poll(
        lambda: viewer.evaluate("() => document.querySelector('video').ended"),
        what="the end of the film",
    )
    presented = msgspec.convert(viewer.evaluate("() => latencyProbe"), Presented)
    viewer.close()
    return presented


@pytest.mark.parametrize(
    "size",
    [
        pytest.param((1280, 720), id="720p", marks=pytest.mark.prove),
        pytest.param((640, 360), id="360p"),
        pytest.param((320, 180), id="180p"),
    ],
)
def test_the_clock_is_read_off_every_rendition(browser: Chromium, size: tuple[int, int]) -> None:
    presented = _play(browser, _film(size))
    clocks = [round(frame.at - frame.latency) % WRAP_MS for frame in presented.frames]
    assert presented.unread == 0
    assert set(clocks) <= set(TIMES)
    assert clocks == sorted(clocks)
    assert len(set(clocks)) > len(TIMES) / 3, "a busy machine may leave some out, not most"
    assert {frame.height for frame in presented.frames} == {size[1]}
    assert presented.stalls == []


def test_a_picture_without_a_clock_has_no_time(browser: Chromium) -> None:
    presented = _play(browser, _film((640, 360), clock=False))
    assert presented.frames == []
    assert presented.unread > 0
