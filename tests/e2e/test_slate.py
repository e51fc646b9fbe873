"""Without encoders, or while the owner pauses: viewers see the slate, then the stream again."""

import itertools
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import msgspec
import pytest

from media.ticks import VIDEO_SCALE
from tests.conftest import Proof
from tests.support.browser import Chromium, Viewer
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import archiving, longest_gap
from tests.support.e2e.encoder_pair import EncoderPair, Json, pair
from tests.support.e2e.hls_reader import addresses, decoder_errors, media, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

RUNGS = ("480p", "360p")
_SHORT = pytest.param(8.0, id="8 s")
_LONG = pytest.param(30.0, id="30 s", marks=pytest.mark.prove)
_GOODBYE = 3.0
_LAST_PICTURE = 2.0  # seconds for which the last picture is shown before the slate

# The mean brightness of the picture in each cell of the clock, row by row.
_POINTS = """() => {
  const { video } = window.headend;
  const canvas = document.createElement("canvas");
  canvas.width = 20;
  canvas.height = 10;
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(video, 0, 0, 20, 10);
  const { data } = context.getImageData(0, 0, 20, 10);
  return Array.from({ length: 200 }, (_, cell) => data[4 * cell + 1]);
}"""


@pytest.fixture(scope="module", params=["normal", pytest.param("low", marks=pytest.mark.prove)])
def latency(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def running(latency: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_LIVE__RECONNECT_SECONDS": "45",
        "HEADEND_LIVE__GOODBYE_SECONDS": str(_GOODBYE),
        "HEADEND_LIVE__LATENCY": latency,
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    folder = tmp_path_factory.mktemp("slate") / "data"
    with service(folder, environment=environment) as headend:
        yield headend


def clock_in(viewer: Viewer) -> int | None:
    """Return the clock in a page's current picture; None if it shows none."""
    points = msgspec.convert(viewer.evaluate(_POINTS), list[int])
    return clock_video.of_levels(points[20:40], points[80:100])


def shows_clock(viewer: Viewer, *, wanted: bool, within: float) -> None:
    poll(
        lambda: (clock_in(viewer) is not None) == wanted,
        within=within,
        what=f"{'the' if wanted else 'no'} clock in Chromium",
    )


def walls_go_on(stream: EncoderPair) -> None:
    """Check that the times of day in the playlist advance with its media.

    After a slate, they may be off by the media that an encoder sent before its tracks were known:
    up to 1.5 s.
    """
    playlist = media(addresses(stream.playlist)["audio"])
    for before, after in itertools.pairwise(playlist.segments):
        assert before.wall_us is not None
        assert after.wall_us is not None
        due = before.wall_us + before.duration * 1_000_000 // VIDEO_SCALE
        assert abs(after.wall_us - due) <= 1_500_000 * SCALE, (before, after)


def recorded(stream: EncoderPair) -> Json | None:
    """Return the video of the stream's last run."""
    label = stream.listed_events("recorded")
    if not label:
        return None
    address = f"{stream.headend.http}/api/projects/1/videos"
    answer = fetch(address, token=stream.headend.token)
    assert answer.status == 200, answer.text
    videos = cast("list[Json]", answer.json["data"])
    return next((video for video in videos if video["hash"] == label[-1]["facts"]["video"]), None)


@pytest.mark.parametrize("away", [_SHORT, _LONG])
def test_a_stream_whose_encoders_all_fail_is_a_slate_and_then_itself_again(
    latency: str,
    running: ServiceProcess,
    browser: Chromium,
    away: float,
    proof: Proof,
    tmp_path: Path,
) -> None:
    stream = pair(running)
    command = clock_video.encoder(stream.url(0), size=clock_video.TWO_RUNGS)
    backup = clock_video.encoder(stream.url(1), size=clock_video.TWO_RUNGS)
    with ExitStack() as world, archiving(stream.playlist, patient=True) as archive:
        first = world.enter_context(publishing(command))
        second = world.enter_context(publishing(backup))
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        poll(lambda: stream.receives() == 2, within=10, what="both encoders")
        run = addresses(stream.playlist)
        viewer = browser.open(stream.watch)
        world.callback(viewer.close)
        viewer.wait_until_playing(20)
        shows_clock(viewer, wanted=True, within=5)
        # Stalls in the first seconds, which a busy machine may delay, do not count.
        stalls = viewer.wait_until_playing(10, span=3).stalls
        began = time.monotonic()
        for encoder in (second, first):
            encoder.kill()
            encoder.wait()
        poll(lambda: stream.listed_events("slate"), within=4, what="the slate is told")
        shows_clock(viewer, wanted=False, within=20)
        flags = stream.record()
        assert (flags["live"], flags["receiving_count"]) == (True, 0)
        time.sleep(max(0.0, away - (time.monotonic() - began)))
        assert viewer.wait_until_playing(10).run is not None, "the slate moves on"
        with publishing(command) as third:
            poll(lambda: stream.listed_events("back on air"), within=10, what="back is told")
            gone_seconds = (
                time.monotonic() - began
            )  # longer than `away` if Chromium shows the slate late
            shows_clock(viewer, wanted=True, within=20)
            viewer.wait_until_playing(10, span=3)
            sample = viewer.sample()
            assert addresses(stream.playlist)["audio"] == run["audio"]
            walls_go_on(stream)
            third.send_signal(signal.SIGINT)
            third.wait(timeout=10 * SCALE)
        poll(lambda: media(run["audio"]).ended, within=_GOODBYE + 6, what="EXT-X-ENDLIST")
        ended = time.monotonic()
        poll(lambda: not stream.record()["live"], within=4, what="off air")
        video = poll(lambda: recorded(stream), within=10, what="the recording")
        proof("from EXT-X-ENDLIST to the recording", f"{time.monotonic() - ended:.1f} s", "5 s")
    slate = archive.unclocked(RUNGS[0], tmp_path)
    for rung in stream.rungs_made(RUNGS):
        assert longest_gap(archive.pictures(rung, tmp_path)) <= 0.25, rung
        for path in archive.held[rung].stretches(tmp_path / f"all-{rung}.mp4"):
            assert decoder_errors(path) == "", path
    label = f"{latency} latency, encoders gone for {away:.0f} s"
    due = gone_seconds + _GOODBYE - 2 * _LAST_PICTURE
    proof(
        f"{label} or until the page shows it: the slate in the media",
        f"{slate:.1f} s",
        f"{due:.1f} s: {gone_seconds:.1f} s and a goodbye, less 2 s of each",
    )
    assert abs(slate - due) <= 1 + SCALE
    recording_viewer = browser.open(f"{running.http}/watch/{video['hash']}")
    recording_viewer.wait_for("playing", 20)  # ready, but paused until the viewer starts it
    recording_viewer.press("k")
    recording_viewer.wait_until_playing(20)
    recording_viewer.close()
    assert sample is not None
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    proof(
        f"{label}: waits of the picture in Chromium, in 2 seams", f"{sample.stalls - stalls}", "0"
    )
    assert sample.stalls == stalls, sample


@pytest.mark.prove
def test_while_the_owner_pauses_the_output_viewers_see_the_slate(
    running: ServiceProcess, browser: Chromium
) -> None:
    stream = pair(running, "Held")
    with publishing(clock_video.encoder(stream.url(0), size=clock_video.TWO_RUNGS)):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        viewer = browser.open(stream.watch)
        viewer.wait_until_playing(20)
        run = addresses(stream.playlist)
        stream.command("pause")
        poll(lambda: stream.record()["paused"], within=3, what="paused")
        shows_clock(viewer, wanted=False, within=20)
        flags = stream.record()
        assert (flags["live"], flags["receiving_count"]) == (True, 1)
        stream.command("resume")
        shows_clock(viewer, wanted=True, within=20)
        assert not stream.record()["paused"]
        assert addresses(stream.playlist)["audio"] == run["audio"]
        sample = viewer.wait_until_playing(10)
        assert sample.stalls == 0, sample
        viewer.close()
    label = [
        each["type"] for each in stream.listed_events("paused", "resumed", "slate", "switched")
    ]
    assert label.count("paused") == label.count("resumed") == 1
    assert "switched" not in label
