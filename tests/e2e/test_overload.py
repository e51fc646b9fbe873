"""A machine that cannot make all rungs: the costliest is shed, players see another, and it returns.

At normal latency, since at low latency a player buffers 1.5 s, and its rung is 2 to 3 s late when
it is shed, so the player stalls.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from media.hls.playlist import MediaPlaylist
from tests.conftest import Proof
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    media,
    multivariant,
)
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service, without_slate
from tests.support.e2e.slow_process import children_of, throttled
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

# The engine gets less and less CPU until it sheds, since the speed of the machine is unknown.
_SHARES = (0.5, 0.35, 0.25, 0.18, 0.13, 0.1, 0.07, 0.05)


@pytest.fixture
def headend(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service at normal latency whose runs end 3 s after a goodbye."""
    environment = {
        "HEADEND_LIVE__LATENCY": "normal",
        "HEADEND_LIVE__GOODBYE_SECONDS": "3",
        "HEADEND_LIVE__RECONNECT_SECONDS": "20",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as running:
        yield running


def made(headend: ServiceProcess) -> dict[str, float]:
    """Return the rungs in the metrics: 1 if the rung is made now, else 0."""
    text = fetch(f"{headend.http}/metrics", token=headend.token).text
    matches = re.findall(r'headend_rung_made\{rendition="(\w+)",stream="\w+"\} ([\d.]+)', text)
    return {name: float(value) for name, value in matches}


def offered(headend: ServiceProcess) -> set[str]:
    """Return the rungs that the multivariant playlist offers."""
    playlist = multivariant(headend.playlist)
    assert playlist is not None
    return {variant.uri.split("/")[-2] for variant in playlist.variants}


def chosen_again(viewer: Viewer, height: int) -> bool:
    """Choose a rung by hand until it is shown: the page's position may still be in a gap."""
    deadline = time.monotonic() + 60 * SCALE
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            return viewer.force(height, 6).height == height
    return False


def test_a_rung_is_shed_players_switch_to_another_and_it_returns(
    headend: ServiceProcess, three_rungs: Path, browser: Chromium, tmp_path: Path, proof: Proof
) -> None:
    options = ("-stream_loop", "-1")
    without_slate(headend)
    with publishing(ffmpeg(three_rungs, f"{headend.server}/{headend.key}", *options)):
        poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
        rungs = addresses(headend.playlist)
        # A viewer of a running stream buffers 6 s; at its very start there are only 2 s.
        poll(lambda: len(media(rungs["audio"]).segments) >= 5, within=25, what="five segments")
        viewer = browser.open(headend.watch)
        # Of three rungs the second is the costliest: the first one is passed through.
        costliest = sorted(viewer.wait_until_playing(20).heights)[1]
        viewer.force(costliest, 20)
        before = viewer.wait_until_playing(10, span=4)
        collected: dict[str, CollectedRendition] = {}
        (engine,) = children_of(headend.process.pid)
        with throttled(engine) as throttle:
            for share in _SHARES:
                throttle.share = share
                deadline = time.monotonic() + 12
                while made(headend).get("480p") == 1 and time.monotonic() < deadline:
                    time.sleep(0.2)
                if made(headend).get("480p") == 0:
                    break
            assert made(headend) == {"720p": 1, "480p": 0, "360p": made(headend)["360p"]}
            poll(lambda: "480p" not in offered(headend), within=15, what="a playlist without it")
            # Its own playlist continues in step, with the media of another one.
            shed, other = media(rungs["480p"]), media(rungs["720p"])
            assert shed.segments[-1].map_uri != shed.segments[0].map_uri
            assert not any(segment.gap for segment in (*shed.segments, *other.segments))
            collect(headend.playlist, collected)
            # The page plays that rung, chosen by hand, and shows what it has instead.
            after = viewer.wait(lambda sample: sample.height != costliest, 30, "another rung")
            moved = viewer.wait(
                lambda sample: sample.position > after.position + 6, 30, "moving on"
            )
            assert moved.stalls == before.stalls, moved
        back = poll(
            lambda: made(headend)["480p"] == 1 and "480p" in offered(headend),
            within=90,
            what="the rung's return",
        )
        assert back
        last = viewer.wait_until_playing(20)
        assert chosen_again(viewer, costliest)
        playlists: dict[str, MediaPlaylist] = {name: media(url) for name, url in rungs.items()}
    assert not any(segment.discontinuity for segment in playlists["480p"].segments)
    assert "fatal" not in " ".join(last.faults)
    proof(
        "a rung shed while a viewer watches it: stalls in hls.js",
        str(moved.stalls - before.stalls),
        "0",
    )
    for name, rendition in collected.items():
        assert decoder_errors(rendition.file(tmp_path / f"{name}.mp4")) == "", name
    assert "rung shed" in headend.log.read_text()
    assert "rung returns" in headend.log.read_text()
