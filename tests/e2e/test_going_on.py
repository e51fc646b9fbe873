"""Encoders and services that stop, die and return: playlists and pages continue."""

import signal
from pathlib import Path

import pytest

from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import addresses, last_sequence, media, multivariant, run_of
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


@pytest.fixture
def headend(own_service: ServiceProcess) -> ServiceProcess:
    return own_service


def test_the_page_waits_starts_by_itself_and_plays_through_deaths_of_encoders(
    headend: ServiceProcess, two_rungs: Path, browser: Chromium, tmp_path: Path
) -> None:
    """Waiting, every rung, an encoder stopped and started, one killed and back with its key."""
    url = f"{headend.server}/{headend.key}"
    viewer = browser.open(headend.watch)
    viewer.wait_for("waiting", 10)
    command = ffmpeg(two_rungs, url, "-stream_loop", "-1")
    with publishing(command) as encoder:
        viewer.wait_until_playing(20)
        for height in (156, 160):
            try:
                viewer.force(height)
            except TimeoutError:
                if not headend.has_shed():
                    raise
            viewer.wait_until_playing(15)
        viewer.screenshot(tmp_path / "playing.png")
        run = run_of(headend.playlist)
        encoder.send_signal(signal.SIGINT)
        encoder.wait(timeout=10 * SCALE)
        before = last_sequence(headend.playlist)
    with publishing(command) as encoder:
        poll(lambda: last_sequence(headend.playlist) > before, within=15, what="a next segment")
        viewer.wait_until_playing(20)
        assert run_of(headend.playlist) == run
        encoder.kill()
        encoder.wait(timeout=10 * SCALE)
        before = last_sequence(headend.playlist)
    with publishing(command):
        poll(lambda: last_sequence(headend.playlist) > before + 1, within=20, what="going on")
        viewer.wait_until_playing(20)
        assert run_of(headend.playlist) == run
    sample = viewer.sample()
    assert sample is not None
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert viewer.breaches() == []
    for address in addresses(headend.playlist).values():
        playlist = media(address)
        # At most two for each interruption: into the slate and out of it.
        assert sum(segment.discontinuity for segment in playlist.segments) <= 4


def test_after_the_end_another_run_has_its_own_addresses_and_the_page_starts_it(
    headend: ServiceProcess, small_source: Path, browser: Chromium
) -> None:
    url = f"{headend.server}/{headend.key}"
    viewer = browser.open(headend.watch)
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        viewer.wait_until_playing(20)
    ended = addresses(headend.playlist)
    poll(lambda: media(ended["audio"]).ended, within=15, what="ENDLIST")
    viewer.wait_for("ended", 30)
    text = fetch(ended["audio"]).text
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        viewer.wait_until_playing(25)
        assert run_of(headend.playlist) != ended["audio"].split("/")[-3]
        assert fetch(ended["audio"]).text == text


@pytest.mark.parametrize(
    "end", [pytest.param(signal.SIGTERM, marks=pytest.mark.prove), signal.SIGKILL]
)
def test_a_restart_of_the_service_goes_on_with_the_run(
    tmp_path: Path, small_source: Path, end: signal.Signals
) -> None:
    """Drained or killed: afterwards the same playlist continues, and all listed media exist."""
    folder = tmp_path / "data"
    with service(folder) as first:
        key, token, hash_ = first.key, first.token, first.hash
        port = first.port_of(first.server)
        with publishing(ffmpeg(small_source, f"{first.server}/{key}", "-stream_loop", "-1")):
            poll(lambda: multivariant(first.playlist), within=15, what="a playlist")
            poll(lambda: last_sequence(first.playlist) >= 1, within=10, what="two segments")
            run, before = run_of(first.playlist), last_sequence(first.playlist)
            assert first.stop(end) == (0 if end == signal.SIGTERM else -end)
    with service(folder, arguments=("--rtmp", f"[::]:{port}")) as second:
        assert (second.key, second.token, second.hash) == (key, token, hash_)
        assert run_of(second.playlist) == run
        drained = last_sequence(second.playlist)
        assert drained >= before
        with publishing(ffmpeg(small_source, f"{second.server}/{key}", "-stream_loop", "-1")):
            poll(lambda: last_sequence(second.playlist) > drained, within=15, what="going on")
        assert run_of(second.playlist) == run
        for address in addresses(second.playlist).values():
            playlist = media(address)
            marks = [segment.discontinuity for segment in playlist.segments]
            # After a kill, segments of which viewers may have received a part are gaps.
            new = [not each.gap for each in playlist.segments].index(
                True, drained + 1 - playlist.sequence
            )
            assert marks[new]
            assert end == signal.SIGKILL or new == drained + 1 - playlist.sequence
            for segment in playlist.segments:
                if segment.gap:
                    continue
                named = address.rsplit("/", 1)[0] + "/" + segment.uri
                assert fetch(named).status == 200


@pytest.mark.prove
def test_a_run_whose_encoder_does_not_come_back_after_a_restart_is_ended(
    tmp_path: Path, small_source: Path
) -> None:
    folder = tmp_path / "data"
    with service(folder) as first, publishing(ffmpeg(small_source, f"{first.server}/{first.key}")):
        poll(lambda: multivariant(first.playlist), within=15, what="a playlist")
        first.stop(signal.SIGKILL)
    with service(folder, environment={"HEADEND_LIVE__RECONNECT_SECONDS": "3"}) as second:
        for address in addresses(second.playlist).values():
            poll(lambda at=address: media(at).ended, within=10, what="ENDLIST")


@pytest.mark.prove
def test_an_encoder_that_lost_its_network_is_replaced_by_its_own_reconnect(
    headend: ServiceProcess, small_source: Path
) -> None:
    """A stopped process keeps its connection: a new connection with its key is accepted."""
    command = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
    with publishing(command) as dead:
        poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")
        dead.send_signal(signal.SIGSTOP)
        try:
            before = last_sequence(headend.playlist)
            with publishing(command):
                poll(lambda: last_sequence(headend.playlist) > before + 1, within=15, what="more")
        finally:
            dead.kill()


@pytest.mark.prove
def test_a_second_live_encoder_is_refused_and_the_first_goes_on(
    headend: ServiceProcess, small_source: Path
) -> None:
    command = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
    with publishing(command) as first:
        poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")
        with publishing(command) as second:
            assert second.wait(timeout=10 * SCALE) != 0
        assert first.poll() is None
        before = last_sequence(headend.playlist)
        poll(lambda: last_sequence(headend.playlist) > before, within=10, what="more")
