"""Every encoder over every transport, with all rungs played in Chromium; and repeated deaths."""

import signal
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.e2e.test_going_on import last_sequence, run_of
from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    collect,
    decoder_errors,
    multivariant,
)
from tests.support.e2e.publishers import ffmpeg, gstreamer, publishing
from tests.support.e2e.service import ServiceProcess, service, without_slate
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

DEATHS = 10


def command(
    headend: ServiceProcess, source: Path, encoder: str, scheme: str, host: str
) -> list[str]:
    port = headend.port_of(headend.secure_server if scheme == "rtmps" else headend.server)
    url = f"{scheme}://{host}:{port}/live/{headend.key}"
    match encoder:
        case "ffmpeg":
            return ffmpeg(source, url, "-stream_loop", "-1")
        case "rtmp2sink":
            # GStreamer checks certificates by default.
            return gstreamer(source, f"rtmp2sink location={url} tls-validation-flags=0")
        case _:
            return gstreamer(source, f"rtmpsink location={url}")


@pytest.mark.parametrize(
    ("encoder", "scheme", "host"),
    [
        (encoder, scheme, host)
        for encoder in ("ffmpeg", "rtmp2sink", "rtmpsink")
        for scheme in ("rtmp", "rtmps")
        for host in ("127.0.0.1", "[::1]")
        # Debian's librtmp resolves IPv4 addresses only.
        if (encoder, host) != ("rtmpsink", "[::1]")
    ],
)
def test_all_rungs_play_and_decode(
    headend: ServiceProcess,
    source: Path,
    browser: Chromium,
    tmp_path: Path,
    proof: Proof,
    encoder: str,
    scheme: str,
    host: str,
) -> None:
    viewer = browser.open(headend.watch)
    collected: dict[str, CollectedRendition] = {}
    without_slate(headend)
    with publishing(command(headend, source, encoder, scheme, host)):
        viewer.wait_until_playing(20)
        for height in (360, 480, 720):
            viewer.force(height)
            collect(headend.playlist, collected)
        viewer.wait_until_playing(15)

    poll(lambda: collect(headend.playlist, collected), within=60, what="the run's end")
    files = {
        name: rendition.file(tmp_path / f"{name}.mp4") for name, rendition in collected.items()
    }
    assert set(files) == {"720p", "480p", "360p", "audio"}
    assert {name: decoder_errors(file) for name, file in files.items()} == dict.fromkeys(files, "")
    sample = viewer.sample()
    assert sample is not None
    assert not [fault for fault in sample.faults if "fatal" in fault]
    proof(f"{encoder} over {scheme} to {host}", "all rungs play, ffmpeg is silent", "the same")


@pytest.mark.parametrize("victim", ["encoder", "service"])
def test_a_run_survives_repeated_deaths_of_encoders_and_services(
    tmp_path: Path, small_source: Path, proof: Proof, victim: str
) -> None:
    """The same run continues after each kill, and every listed segment exists."""
    folder = tmp_path / "data"
    collected: dict[str, CollectedRendition] = {}
    run = ""
    sequence = -1
    for _ in range(DEATHS):
        with service(folder) as running:
            for _ in range(DEATHS if victim == "encoder" else 1):
                url = f"{running.server}/{running.key}"
                with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")) as encoder:
                    poll(lambda: multivariant(running.playlist), within=15, what="a playlist")
                    poll(
                        lambda before=sequence: last_sequence(running.playlist) > before,
                        within=20,
                        what="going on",
                    )
                    collect(running.playlist, collected)  # a missing segment fails here
                    sequence = last_sequence(running.playlist)
                    assert run in {"", run_of(running.playlist)}
                    run = run_of(running.playlist)
                    if victim == "service":
                        running.stop(signal.SIGKILL)
                    encoder.kill()
            if victim == "encoder":
                break
    files = {
        name: rendition.file(tmp_path / f"{name}.mp4") for name, rendition in collected.items()
    }
    assert {len(rendition.segments) for rendition in collected.values()} == {
        len(collected["audio"].segments)
    }
    assert all(file.stat().st_size for file in files.values())
    proof(f"{DEATHS} deaths of the {victim} in a row", "one run, no segment missing", "the same")
