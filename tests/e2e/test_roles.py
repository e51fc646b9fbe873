"""`headend ingest` and `headend api` as two processes on one folder, each restarted alone."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    frames,
    media,
    multivariant,
    run_of,
)
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service, settle
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HEADEND = str(Path(sys.executable).with_name("headend"))
WINDOWS = {
    "HEADEND_LIVE__GOODBYE_SECONDS": "0",  # no slate after the counted pictures
    "HEADEND_LIVE__RECONNECT_SECONDS": "30",
    # An API may start slowly on a busy machine; segments from meanwhile must still be listed.
    "HEADEND_LIVE__LISTED_SECONDS": "120",
    "HEADEND_LIVE__KEPT_SECONDS": "180",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}


@contextmanager
def ingest_role(data: Path, *arguments: str) -> Generator[ServiceProcess]:
    with service(data, role="ingest", environment=WINDOWS, arguments=arguments) as running:
        yield running


@contextmanager
def api_role(ingest: ServiceProcess, *arguments: str) -> Generator[ServiceProcess]:
    """Run the API beside an ingest, whose ports it knows as from a common settings file."""
    ports = (
        *("--rtmp", f"[::]:{ingest.port_of(ingest.server)}"),
        *("--rtmps", f"[::]:{ingest.port_of(ingest.secure_server)}"),
    )
    arguments = (*ports, *arguments)
    with service(ingest.data, role="api", environment=WINDOWS, arguments=arguments) as running:
        yield running


@contextmanager
def first_ingest(data: Path) -> Generator[ServiceProcess]:
    """Run an ingest on a folder that `headend migrate` makes."""
    migration = run_headend("migrate", "--data", str(data))
    assert migration.returncode == 0, migration.stderr
    assert str(data / "owner.token") in migration.stdout
    with ingest_role(data) as running:
        yield running


@pytest.fixture(scope="module")
def ingest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """An ingest that runs during all tests of this module."""
    with first_ingest(tmp_path_factory.mktemp("roles") / "data") as running:
        yield running


@pytest.fixture
def second_ingest(tmp_path: Path) -> Iterator[ServiceProcess]:
    """An ingest for one test, which stops it."""
    with first_ingest(tmp_path / "data") as running:
        yield running


def port_of(running: ServiceProcess) -> str:
    return f"127.0.0.1:{running.port_of(running.http)}"


def flags(api: ServiceProcess) -> dict[str, object]:
    """Return the first stream's flags from the API."""
    answer = fetch(f"{api.http}/api/projects/1/streams", token=api.token)
    assert answer.status == 200, answer.text
    record = cast("list[dict[str, object]]", answer.json["data"])[-1]  # JSON
    return {name: record[name] for name in ("live", "published")}


def last_sequence(url: str) -> int:
    playlist = media(addresses(url)["audio"])
    return playlist.sequence + len(playlist.segments) - 1


def follow(url: str, collected: dict[str, CollectedRendition], seconds: float) -> None:
    """Follow the playlists for some seconds; each listed segment must exist."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        collect(url, collected)
        time.sleep(0.2)  # players poll less often


def test_a_restart_of_the_api_costs_the_stream_nothing(
    ingest: ServiceProcess, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    """Drained, then killed, while an encoder publishes: no picture is lost."""
    collected: dict[str, CollectedRendition] = {}
    progress = tmp_path / "progress.txt"
    options = ("-stream_loop", "-1", "-progress", str(progress))
    command = ffmpeg(small_source, f"{ingest.server}/{ingest.key}", *options)
    with ExitStack() as stack:
        first = stack.enter_context(api_role(ingest))
        at = port_of(first)
        # The kernel drops ffmpeg's goodbye if an acknowledgement arrives just before the close.
        settle(first, reconnect_seconds=0)
        encoder = stack.enter_context(publishing(command))
        playlist = first.playlist
        poll(lambda: multivariant(playlist), within=20, what="a playlist")
        follow(playlist, collected, 2)
        assert first.stop(signal.SIGTERM) == 0
        second = stack.enter_context(api_role(ingest, "--http", at))
        assert flags(second) == {"live": True, "published": True}
        follow(playlist, collected, 1)
        assert second.stop(signal.SIGKILL) == -signal.SIGKILL
        third = stack.enter_context(api_role(ingest, "--http", at))
        assert flags(third) == {"live": True, "published": True}
        follow(playlist, collected, 1)
        encoder.send_signal(signal.SIGINT)
        encoder.wait(timeout=10 * SCALE)
        poll(lambda: collect(playlist, collected), within=60, what="the run's end")
        poll(lambda: not flags(third)["live"], within=10, what="off air")
    sent = int(re.findall(r"^frame=\s*(\d+)", progress.read_text(), re.MULTILINE)[-1])
    assert set(collected) == {"360p", "audio"}
    for name, rendition in collected.items():
        numbers = sorted(rendition.segments)
        assert numbers == list(range(len(numbers))), name
        assert not any(segment.discontinuity for segment in rendition.segments.values()), name
        file = rendition.file(tmp_path / f"{name}.mp4")
        assert decoder_errors(file) == "", name
        if name != "audio":
            lost = sent - len(list(frames(file)))
            assert lost == 0
            proof(
                "pictures lost while the API was drained, killed and started anew, of all sent",
                f"{lost} of {sent}",
                "0",
            )


@pytest.mark.prove
def test_a_restarted_ingest_continues_the_run_and_the_api_keeps_serving(
    second_ingest: ServiceProcess, small_source: Path, tmp_path: Path
) -> None:
    ingest = second_ingest
    collected: dict[str, CollectedRendition] = {}
    ports = (
        *("--rtmp", f"[::]:{ingest.port_of(ingest.server)}"),
        *("--rtmps", f"[::]:{ingest.port_of(ingest.secure_server)}"),
    )
    command = ffmpeg(small_source, f"{ingest.server}/{ingest.key}", "-stream_loop", "-1")
    with api_role(ingest) as api:
        url = api.playlist
        with publishing(command):
            poll(lambda: multivariant(url), within=20, what="a playlist")
            poll(lambda: last_sequence(url) >= 1, within=15, what="two segments")
            run_name = run_of(url)
            collect(url, collected)
            with BackgroundThread(lambda: follow(url, collected, 4)):
                assert ingest.stop(signal.SIGTERM) == 0
        assert flags(api)["live"] is False
        drained = last_sequence(url)
        assert not media(addresses(url)["audio"]).ended
        with ingest_role(ingest.data, *ports), publishing(command):
            poll(lambda: last_sequence(url) > drained + 1, within=25, what="going on")
            assert flags(api) == {"live": True, "published": True}
            collect(url, collected)
            assert run_of(url) == run_name
    for name, rendition in collected.items():
        numbers = sorted(rendition.segments)
        assert numbers == list(range(len(numbers))), name
        marks = [number for number in numbers if rendition.segments[number].discontinuity]
        assert marks == [drained + 1], name
        # Each source has its own init section, and a file can have only one.
        for init in rendition.inits:
            segments = {
                n: segment for n, segment in rendition.segments.items() if segment.init == init
            }
            file = CollectedRendition(rendition.inits, segments).file(tmp_path / f"{name}.mp4")
            assert decoder_errors(file) == "", name


class BackgroundThread:
    """Runs a function during the block; its exception is raised at the end of the block."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._failed: list[BaseException] = []

        def do() -> None:
            try:
                act()
            except (AssertionError, OSError) as error:
                self._failed.append(error)

        self._thread = threading.Thread(target=do)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._failed:
            raise self._failed[0]


def test_a_stream_that_the_api_adds_can_be_published_at_once_and_plays(
    ingest: ServiceProcess, small_source: Path, browser: Chromium
) -> None:
    with api_role(ingest) as api:
        record = api.add_stream("Another")
        assert str(record["rtmp_url"]) == ingest.server
        url = f"{record['rtmp_url']}/{record['stream']}"
        with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
            hash_ = str(record["stream_url"]).split("/")[-2]
            viewer = browser.open(f"{api.http}/watch/{hash_}")
            viewer.wait_until_playing(30)
            assert viewer.breaches() == []
            assert fetch(f"{api.http}/embed/{hash_}").status == 200


@pytest.mark.prove
def test_streams_of_a_killed_ingest_are_marked_as_off_the_air(
    second_ingest: ServiceProcess, small_source: Path
) -> None:
    ingest = second_ingest
    command = ffmpeg(small_source, f"{ingest.server}/{ingest.key}", "-stream_loop", "-1")
    with api_role(ingest) as api:
        with publishing(command):
            poll(lambda: flags(api)["live"], within=20, what="live")
            poll(lambda: multivariant(api.playlist), what="a stored playlist")
            ingest.stop(signal.SIGKILL)
        poll(lambda: not flags(api)["live"], within=20, what="off air")
        # What was listed can still be fetched.
        collect(api.playlist, {})
        with ingest_role(ingest.data):
            assert fetch(f"{api.http}/readyz").status == 200


def test_each_role_reports_its_own_metrics_and_health(ingest: ServiceProcess) -> None:
    assert fetch(f"{ingest.status}/healthz").json == {"status": "alive"}
    assert fetch(f"{ingest.status}/readyz").json == {"status": "ready", "problems": []}
    poll(lambda: "headend_ingest_connections 0.0" in fetch(f"{ingest.status}/metrics").text,
          within=10, what="nobody is connected")  # fmt: skip
    assert fetch(f"{ingest.status}/api/projects/1/streams").status == 404
    with api_role(ingest) as api:
        assert fetch(f"{api.http}/readyz").json == {"status": "ready", "problems": []}
        dark = api.add_stream("Never live")["hash"]
        assert fetch(f"{api.http}/live/{dark}/index.m3u8").status == 404
        figures = fetch(f"{api.status}/metrics").text
        assert 'headend_http_answers_total{room="live",status="4xx"} 1.0' in figures
        assert "process_resident_memory_bytes" in figures
        assert "headend_ingest" not in figures
    assert ingest.process.poll() is None
    before = ingest.log.read_text().count("certificate loaded")
    ingest.process.send_signal(signal.SIGHUP)
    poll(lambda: ingest.log.read_text().count("certificate loaded") > before, within=5,
          what="a reload")  # fmt: skip


def refusal(role: str, data: Path, *arguments: str) -> str:
    """Return the message of a refused start."""
    doors = ("--http", "127.0.0.1:0", "--status", "127.0.0.1:0")
    refused = run_headend(role, "--data", str(data), *doors, *arguments)
    assert refused.returncode == 1, refused.stdout
    assert "Traceback" not in refused.stderr
    assert refused.stderr.count("\n") == 1, refused.stderr
    return refused.stderr


FREE = ("--rtmp", "[::]:0", "--rtmps", "[::]:0")


@pytest.mark.prove
def test_only_one_process_may_write_and_any_number_may_serve(ingest: ServiceProcess) -> None:
    for role in ("serve", "ingest"):
        words = refusal(role, ingest.data, *FREE)
        assert f"(headend ingest, process {ingest.process.pid})" in words
        assert "only one process may write live media there" in words
    with api_role(ingest) as one, api_role(ingest) as two:
        assert fetch(f"{one.http}/readyz").status == fetch(f"{two.http}/readyz").status == 200
        # Migrating an up-to-date catalog is allowed while others use it.
        assert run_headend("migrate", "--data", str(ingest.data)).returncode == 0


@pytest.mark.prove
def test_the_api_may_run_beside_the_whole_service(tmp_path: Path, small_source: Path) -> None:
    with service(tmp_path / "data", environment=WINDOWS) as whole:
        words = refusal("ingest", whole.data, *FREE)
        assert f"(headend serve, process {whole.process.pid})" in words
        with (
            api_role(whole) as api,
            publishing(ffmpeg(small_source, f"{whole.server}/{whole.key}", "-stream_loop", "-1")),
        ):
            poll(lambda: multivariant(api.playlist), within=20, what="a playlist")
            follow(api.playlist, {}, 2)


@pytest.mark.parametrize("role", ["ingest", pytest.param("api", marks=pytest.mark.prove)])
def test_a_role_without_a_database_says_what_to_run(tmp_path: Path, role: str) -> None:
    assert "headend migrate` first" in refusal(role, tmp_path / "none", *FREE)
    assert not (tmp_path / "none").exists()


def test_the_api_refuses_to_guess_a_port_that_only_the_ingest_knows(ingest: ServiceProcess) -> None:
    words = refusal("api", ingest.data, *FREE)
    assert "rtmp.listen is [::]:0, a free port" in words
    assert "rtmp.public_url" in words
