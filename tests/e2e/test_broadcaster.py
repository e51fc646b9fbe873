"""Foreign web-socket clients receive the events of real processes and a real publisher."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import cast

import pytest

from tests.support.browser import Chromium
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service
from tests.support.e2e.websocket_clients import (
    ClientOutput,
    WebSocketProgram,
    client,
    credentials,
    greet,
    key_of,
    options,
    publish,
)
from tests.support.free_ports import free_port
from tests.support.in_thread import in_thread
from tests.support.redis_server import RedisServer, redis_server

pytestmark = pytest.mark.e2e

_ECHO = pytest.param("echo", marks=pytest.mark.prove)  # built on the other library

# The states of a stream from the first byte of its encoder to the end of its run, in order.
STATES = [
    {"live": False, "processing": False, "receiving_count": 1, "published": False},
    {"live": False, "processing": True, "receiving_count": 1, "published": False},
    {"live": True, "processing": True, "receiving_count": 1, "published": True},
    {"live": True, "processing": True, "receiving_count": 0, "published": True},
    {"live": False, "processing": False, "receiving_count": 0, "published": True},
]
KEYS = {
    "id", "hash", "live", "processing", "paused", "published", "receiving_count", "backups",
    "version",
}  # fmt: skip


@pytest.fixture
def headend(own_service: ServiceProcess) -> ServiceProcess:
    return own_service


def last_state(events: list[ClientOutput]) -> ClientOutput:
    """Return the stream's state in the last event."""
    return {name: events[-1][name] for name in STATES[0]} if events else {}


def of_stream(events: list[ClientOutput]) -> list[ClientOutput]:
    """Leave out the events of videos: an earlier run may become one now."""
    return [each for each in events if "live" in each]


@pytest.mark.parametrize("library", ["pusher", _ECHO])
def test_a_client_sees_every_state_of_a_stream_that_goes_live_and_ends(
    library: str, packages: Path, headend: ServiceProcess, small_source: Path
) -> None:
    channels = (
        f"stream.{headend.hash}",
        f"private-stream.{headend.hash}",
        "private-project.1",
    )
    with client(packages, headend, *channels, library=library, token=headend.token) as viewer:
        for channel in channels:
            viewer.wait_for("subscribed", channel=channel)
        # In a loop: on a busy machine, the stream may go live after the length of the file.
        send = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
        with publishing(send):
            viewer.wait(lambda _: any(each["live"] for each in viewer.events(channels[0])), 30,
                        "live stream")  # fmt: skip
        for channel in channels:
            viewer.wait(
                lambda _, on=channel: last_state(of_stream(viewer.events(on))) == STATES[-1], 40,
                "its end",
            )  # fmt: skip
            events = of_stream(viewer.events(channel))
            # Only the first two states may be merged into one event, as they are written together.
            # A state may be repeated for changes outside it: posters, the slot on air.
            states = [state for state, _ in groupby(last_state([each]) for each in events)]
            assert states in (STATES, STATES[1:]), json.dumps(states)  # pytest shortens long lists
            versions = [each["version"] for each in events]
            assert versions == list(range(versions[0], versions[0] + len(events)))
            assert all(each.keys() == KEYS for each in events)


def test_a_client_without_a_token_receives_public_channels_only(
    packages: Path, headend: ServiceProcess
) -> None:
    public, private = f"stream.{headend.hash}", f"private-stream.{headend.hash}"
    with client(packages, headend, public, private, token="headend_wrong") as viewer:
        viewer.wait_for("subscribed", channel=public)
        assert viewer.wait_for("refused", channel=private)["status"] == 401
        greet(headend, private, "secret")
        greet(headend, public, "hello")
        viewer.wait_for("event", channel=public)
        assert viewer.events(private) == []


@pytest.mark.prove
def test_a_client_with_a_wrong_key_is_refused_and_does_not_retry(
    packages: Path, headend: ServiceProcess
) -> None:
    with client(packages, headend, "stream.a", key="0" * 20) as viewer:
        assert viewer.wait_for("error")["error"]["code"] == 4001
        viewer.wait_for("state", state="disconnected")


@pytest.mark.parametrize("library", ["pusher", _ECHO])
def test_clients_reconnect_by_themselves_after_a_restart_of_the_service(
    library: str, packages: Path, tmp_path: Path
) -> None:
    listen = ("--http", f"127.0.0.1:{free_port()}")
    with service(tmp_path / "data", arguments=listen) as first:
        channels = (f"stream.{first.hash}", f"private-stream.{first.hash}")
        with client(packages, first, *channels, library=library, token=first.token) as viewer:
            for channel in channels:
                viewer.wait_for("subscribed", channel=channel)
            assert first.stop() == 0
            with service(tmp_path / "data", arguments=listen) as again:
                for channel in channels:
                    viewer.wait_for("subscribed", 40, count=2, channel=channel)
                    greet(again, channel, "after")
                    viewer.wait_for("event", channel=channel)
                    assert viewer.events(channel) == [{"words": "after"}]
            assert "disconnected" not in [each.get("state") for each in viewer.output]


def test_two_api_processes_send_each_others_events_and_survive_a_restart_of_redis(
    packages: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    # Where encoders would connect: the addresses are only published, not bound.
    ingest = ("--rtmp", "127.0.0.1:1935", "--rtmps", "127.0.0.1:1936")
    assert run_headend("migrate", "--data", str(data)).returncode == 0

    def api_on(redis: RedisServer) -> AbstractContextManager[ServiceProcess]:
        environment = {"HEADEND_REDIS__URL": redis.url}
        return service(data, role="api", environment=environment, arguments=ingest)

    def both_receive(
        first: ServiceProcess,
        second: ServiceProcess,
        first_client: WebSocketProgram,
        second_client: WebSocketProgram,
        words: str,
    ) -> None:
        for sender in (first, second):
            greet(sender, "lobby", words)
        for receiver in (first_client, second_client):
            receiver.wait(
                lambda _, by=receiver: by.events("lobby")[-2:] == [{"words": words}] * 2, 20, words
            )

    with (
        redis_server(tmp_path) as redis,
        api_on(redis) as first,
        api_on(redis) as second,
        client(packages, first, "lobby") as first_client,
        client(packages, second, "lobby", library="echo") as second_client,
    ):
        for viewer in (first_client, second_client):
            viewer.wait_for("subscribed", channel="lobby")
        both_receive(first, second, first_client, second_client, "with Redis")
        redis.stop()
        both_receive(first, second, first_client, second_client, "without Redis")
        redis.start()
        both_receive(first, second, first_client, second_client, "with Redis again")
        for viewer in (first_client, second_client):
            assert len(viewer.events("lobby")) == 6, "nothing twice, nothing lost"


def token_of(headend: ServiceProcess, name: str) -> tuple[int, str]:
    """Add a token that may read; return its number and its text."""
    body = {"name": name, "write": False}
    address = f"{headend.http}/api/tokens"
    added = fetch(address, method="POST", token=headend.token, body=body).json
    record = cast("ClientOutput", added["token"])
    return cast("int", record["id"]), cast("str", added["secret"])


@pytest.mark.parametrize("library", ["pusher", _ECHO])
def test_a_private_channel_ends_with_its_token_which_another_process_revokes(
    library: str, packages: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    ingest = ("--rtmp", "127.0.0.1:1935", "--rtmps", "127.0.0.1:1936")
    assert run_headend("migrate", "--data", str(data)).returncode == 0
    private, public = "private-project.1", "lobby"
    with (
        service(data, role="api", arguments=ingest) as first,
        service(data, role="api", arguments=ingest) as second,
    ):
        number, token = token_of(first, "visitors")
        with (
            client(packages, first, private, public, library=library, token=token) as viewer,
            client(packages, first, private, library=library, token=first.token) as owner,
        ):
            for channel in (private, public):
                viewer.wait_for("subscribed", channel=channel)
            owner.wait_for("subscribed", channel=private)
            greet(second, private, "before")
            viewer.wait_for("event", channel=private)
            address = f"{second.http}/api/tokens/{number}"
            assert fetch(address, method="DELETE", token=second.token).status == 204
            refused = viewer.wait_for("refused", 5, channel=private)
            assert (refused["status"], refused["type"]) == (401, "AuthError")
            for channel in (private, public):
                greet(second, channel, "after")
            owner.wait_for("event", channel=private, count=2)
            viewer.wait_for("event", channel=public)
            assert viewer.events(private) == [{"words": "before"}]
            assert viewer.events(public) == [{"words": "after"}]


PAGE = """<!doctype html><title>a shop</title><script src="pusher.js"></script><script>
window.told = [];
const { key, options, channels } = ORDER;
const pusher = new Pusher(key, options);
for (const name of channels) {
  pusher.subscribe(name).bind_global((event, data) => window.told.push([name, event, data]));
}
</script>"""


def _silent(*_words: object) -> None:
    """Log nothing."""


@contextmanager
def page_on_another_origin(folder: Path, order: object, packages: Path) -> Generator[str]:
    """Serve a page with pusher-js, as a website does."""
    folder.mkdir()
    shutil.copy(packages / "node_modules/pusher-js/dist/web/pusher.js", folder / "pusher.js")
    (folder / "index.html").write_text(PAGE.replace("ORDER", json.dumps(order)))
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": _silent})
    handler = functools.partial(quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with server, in_thread(server.serve_forever, server.shutdown):
        yield f"http://localhost:{server.server_port}/"


def test_a_page_on_another_origin_receives_public_and_private_channels_in_chromium(
    packages: Path, headend: ServiceProcess, browser: Chromium, tmp_path: Path
) -> None:
    channels = [f"stream.{headend.hash}", "private-project.1"]
    order = {
        "key": key_of(headend),
        "options": options(headend, token=headend.token),
        "channels": channels,
    }
    with page_on_another_origin(tmp_path / "shop", order, packages) as address:
        page = browser.open(address)

        def received(count: int) -> list[object]:
            deadline = time.monotonic() + 20 * SCALE
            while True:
                events = cast("list[object]", page.evaluate("() => window.told"))  # by PAGE
                if len(events) >= count:
                    return sorted(events, key=str)
                assert time.monotonic() < deadline, (events, page.console)
                time.sleep(0.1)

        subscribed = "pusher:subscription_succeeded"
        subscriptions: list[object] = [[channel, subscribed, {}] for channel in channels]
        assert received(2) == sorted(subscriptions, key=str)
        page.evaluate("() => { window.told = []; }")
        for channel in channels:
            greet(headend, channel, "hello")
        greetings: list[object] = [[each, "greeting", {"words": "hello"}] for each in channels]
        assert received(2) == sorted(greetings, key=str)
        page.close()


DOCS = (Path(__file__).parents[2] / "docs" / "broadcaster.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


def shell_example(headend: ServiceProcess) -> None:
    """Publish with the shell lines of the page."""
    app_credentials = credentials(headend)
    variables = {
        "KEY": app_credentials["key"],
        "SECRET": app_credentials["secret"],
        "URL": headend.http,
    }
    (script,) = examples("sh")
    subprocess.run(
        ["sh", "-eu", "-c", script], check=True, timeout=30 * SCALE, env={**os.environ, **variables}
    )


def test_the_shell_lines_of_the_page_publish(packages: Path, headend: ServiceProcess) -> None:
    with client(packages, headend, "lobby") as viewer:
        viewer.wait_for("subscribed", channel="lobby")
        shell_example(headend)
        viewer.wait_for("event", channel="lobby")
        assert viewer.events("lobby") == [{"words": "hello"}]


@pytest.mark.parametrize(
    "number", [0, pytest.param(1, marks=pytest.mark.prove)], ids=["pusher-js", "Laravel Echo"]
)
def test_the_clients_of_the_page_receive_events(
    number: int, packages: Path, headend: ServiceProcess
) -> None:
    page = examples("js")[number]
    values = {
        "WEB_SOCKET_KEY": key_of(headend),
        "HASH": headend.hash,
        "video.example.org": "127.0.0.1",
        "wsPort: 80": f"wsPort: {headend.port_of(headend.http)}",
        "forceTLS: true": "forceTLS: false",
    }
    for documented, actual in values.items():
        assert documented in page
        page = page.replace(documented, actual)
    script = packages / f"page{number}.mjs"
    script.write_text(page)
    app_credentials = credentials(headend)
    state = {"live": True, "version": 12}
    with subprocess.Popen(
        ["node", script], cwd=packages, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            deadline = time.monotonic() + 30 * SCALE
            # The client does not report its subscription: repeat the event until it arrives.
            while not (line := process.stdout.readline()):
                assert time.monotonic() < deadline, "it heard nothing"
                publish(headend, app_credentials, f"stream.{headend.hash}", "live", state)
                time.sleep(0.5)
            assert line.split() == ["true", "12"]
        finally:
            process.kill()
