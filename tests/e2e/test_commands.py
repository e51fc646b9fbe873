"""An owner's commands while a real encoder sends: end, rotate the key, unpublish, delete."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.publishers import ffmpeg, persisting, publishing
from tests.support.e2e.service import SCALE, Answer, ServiceProcess, fetch, run_headend, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

WINDOWS = {
    "HEADEND_LIVE__GOODBYE_SECONDS": "20",
    "HEADEND_LIVE__RECONNECT_SECONDS": "20",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}
Json = dict[str, Any]  # Any: what the API answers


class Owner:
    """A stream's owner at the API of one process."""

    def __init__(self, api: ServiceProcess, stream: Json) -> None:
        self.api = api
        self.stream = stream
        self.playlist = str(stream["stream_url"])
        self.folder = api.data / "objects" / "live" / str(stream["hash"])

    def call(self, method: str, path: str = "", body: object = None) -> Answer:
        url = f"{self.api.http}/api/streams/{self.stream['id']}{path}"
        return fetch(url, method=method, token=self.api.token, body=body)

    def shown(self) -> Json:
        answer = self.call("GET")
        assert answer.status == 200, answer.text
        return answer.json["data"]  # pyright: ignore[reportReturnType]  # JSON

    def posted(self, action: str) -> Json:
        answer = self.call("POST", f"/{action}")
        assert answer.status == 200, answer.text
        return answer.json["stream"]  # pyright: ignore[reportReturnType]  # JSON

    def events(self) -> list[str]:
        url = f"{self.api.http}/api/projects/1/events"
        listed: list[Json] = []
        page: str | None = url
        while page is not None:
            answer: Json = fetch(page, token=self.api.token).json
            listed += answer["data"]
            page = answer["links"]["next"]
        own_kinds = [each["type"] for each in listed if each["subject"] == self.stream["hash"]]
        return own_kinds[::-1]

    def held_until(self) -> str:
        """Return until when encoders are refused; "" if they are not."""
        answer = self.call("GET", "/ingest")
        assert answer.status == 200, answer.text
        report: Json = answer.json
        return str(report["data"].get("held_until", ""))

    def sending(self, source: Path, key: str | None = None) -> list[str]:
        url = f"{self.stream['rtmp_url']}/{key or self.stream['stream']}"
        return ffmpeg(source, url, "-stream_loop", "-1")

    def on_air(self) -> None:
        poll(lambda: self.shown()["live"], within=30, what="live")
        poll(lambda: multivariant(self.playlist), within=10, what="a playlist")


def gone(encoder: subprocess.Popen[bytes], within: float = 10) -> None:
    """Check that an encoder was disconnected."""
    encoder.wait(timeout=within * SCALE)


@pytest.fixture(
    scope="module",
    params=[pytest.param("one process", marks=pytest.mark.prove), "two processes"],
)
def api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """The API in the process that receives encoders, and in a separate process."""
    data = tmp_path_factory.mktemp("commands") / "data"
    if request.param == "one process":
        with service(data, environment=WINDOWS) as whole:
            yield whole
        return
    assert run_headend("migrate", "--data", str(data)).returncode == 0
    with service(data, role="ingest", environment=WINDOWS) as ingest:
        ports = {"rtmp": ingest.server.removesuffix("/live"), "rtmps": ingest.secure_server}
        settings = {
            "HEADEND_RTMP__PUBLIC_URL": ports["rtmp"],
            "HEADEND_RTMPS__PUBLIC_URL": ports["rtmps"].removesuffix("/live"),
        }
        with service(data, role="api", environment={**WINDOWS, **settings}) as apart:
            yield apart


@pytest.fixture
def stream_owner(api: ServiceProcess) -> Iterator[Owner]:
    """The owner of a new stream."""
    owner = Owner(api, api.add_stream("Mine"))
    yield owner
    assert owner.call("DELETE").status in {204, 404}


def test_an_end_ends_the_run_at_once_and_the_next_encoder_that_is_allowed_begins_another(
    stream_owner: Owner, small_source: Path
) -> None:
    with publishing(stream_owner.sending(small_source)) as encoder:
        stream_owner.on_air()
        first = addresses(stream_owner.playlist)
        stream = stream_owner.posted("end")
        assert (stream["live"], stream["processing"], stream["receiving_count"]) == (
            False, False, 0,
        )  # fmt: skip
        assert all(media(url).ended for url in first.values())
        gone(encoder)
    answer = stream_owner.call("POST", "/end")
    assert answer.status == 409
    assert "nothing to end" in answer.text
    with publishing(stream_owner.sending(small_source)) as refused:
        gone(refused)
        assert refused.stderr is not None
        assert b"the stream was ended by its owner: stop this encoder" in refused.stderr.read()
    with persisting(stream_owner.sending(small_source)):  # as OBS reconnects
        held = stream_owner.held_until()
        poll(lambda: stream_owner.held_until() > held, within=20, what="further attempts")
        assert {"stream ended", "refused"} <= set(stream_owner.events())
        assert stream_owner.shown()["receiving_count"] == 0
        stream_owner.posted("allow")
        stream_owner.on_air()
        poll(lambda: not set(first.values()) & set(addresses(stream_owner.playlist).values()),
              within=20, what="another run")  # fmt: skip
    events = stream_owner.events()
    assert events[events.index("refused") + 1] == "stream allowed"
    assert events.count("refused") == 1


def test_a_new_key_disconnects_the_encoder_and_the_run_continues_with_the_new_key(
    stream_owner: Owner, small_source: Path
) -> None:
    old = str(stream_owner.stream["stream"])
    with publishing(stream_owner.sending(small_source)) as encoder:
        stream_owner.on_air()
        run = addresses(stream_owner.playlist)
        stream = stream_owner.posted("rotate-key")
        key = str(stream["stream"])
        assert re.fullmatch(f"{stream_owner.stream['hash']}_[0-9a-f-]{{36}}", key)
        assert key != old
        assert stream["receiving_count"] == 0
        gone(encoder)
    with publishing(stream_owner.sending(small_source, old)) as refused:
        gone(refused)
    with publishing(stream_owner.sending(small_source, key)):
        poll(lambda: stream_owner.shown()["receiving_count"], within=20, what="the encoder")
        stream_owner.on_air()
        assert addresses(stream_owner.playlist) == run  # not another run
    assert old.split("_")[1] not in stream_owner.api.log.read_text()
    assert key.split("_")[1] not in stream_owner.api.log.read_text()


def test_a_deleted_stream_ends_and_leaves_nothing_but_its_events(
    stream_owner: Owner, small_source: Path
) -> None:
    with publishing(stream_owner.sending(small_source)) as encoder:
        stream_owner.on_air()
        assert stream_owner.folder.is_dir()
        assert stream_owner.call("DELETE").status == 204
        gone(encoder)
    assert stream_owner.call("GET").status == 404
    poll(lambda: fetch(stream_owner.playlist).status == 404, within=2, what="nothing to play")
    watch = f"{stream_owner.api.http}/watch/{stream_owner.stream['hash']}"
    poll(lambda: fetch(watch).status == 404, within=2, what="no page")
    with publishing(stream_owner.sending(small_source)) as refused:
        gone(refused)
        assert refused.stderr is not None
        assert b"its owner can restore it from the trash" in refused.stderr.read()
    assert stream_owner.folder.exists(), "it can be restored"
    stream_owner.api.empty_trash()
    assert not stream_owner.folder.exists()
    events = stream_owner.events()
    assert events[0] == "stream added"
    assert "live" in events
    assert "stream deleted" in events


def test_unpublishing_hides_a_stream_from_viewers_even_if_it_is_live(
    stream_owner: Owner, small_source: Path
) -> None:
    assert stream_owner.posted("unpublish")["published"] is False
    with publishing(stream_owner.sending(small_source)):
        poll(lambda: stream_owner.shown()["live"], within=30, what="live")
        assert fetch(stream_owner.playlist).status == 404  # the first run does not undo it
        assert stream_owner.posted("publish")["published"] is True
        stream_owner.on_air()
        assert stream_owner.posted("unpublish")["published"] is False
        poll(lambda: fetch(stream_owner.playlist).status == 404, within=2, what="nothing to play")
        assert stream_owner.shown()["live"] is True
        assert fetch(stream_owner.playlist, token=stream_owner.api.token).status == 200


def test_edited_resolutions_apply_from_the_next_run(stream_owner: Owner, two_rungs: Path) -> None:
    """480p costs no encoder, so a busy machine keeps it; and a run keeps its last encoded rung."""
    with publishing(stream_owner.sending(two_rungs)):
        stream_owner.on_air()
        first = addresses(stream_owner.playlist)
        edited = stream_owner.call("PUT", body={"resolutions": [1]})
        assert edited.status == 200, edited.text
        newest = media(first["480p"]).segments[-1].uri
        poll(lambda: media(first["480p"]).segments[-1].uri != newest, within=20, what="another")
        assert addresses(stream_owner.playlist)["480p"] == first["480p"]
        stream_owner.posted("end")
    stream_owner.posted("allow")
    with publishing(stream_owner.sending(two_rungs)):
        poll(lambda: set(addresses(stream_owner.playlist)) == {"360p", "audio"},
              within=40, what="another run")  # fmt: skip


def test_without_an_ingest_an_end_is_refused_and_a_deletion_is_not(tmp_path: Path) -> None:
    assert run_headend("migrate", "--data", str(tmp_path / "data")).returncode == 0
    settings = {
        "HEADEND_RTMP__PUBLIC_URL": "rtmp://localhost:1935",
        "HEADEND_RTMPS__PUBLIC_URL": "rtmps://localhost:1936",
    }
    with service(tmp_path / "data", role="api", environment={**WINDOWS, **settings}) as api:
        lone = Owner(api, api.add_stream("Lone"))
        answer = lone.call("POST", "/end")
        assert answer.status == 503
        assert "No process receives encoders" in answer.text
        assert answer.headers["retry-after"] == "5"
        assert lone.posted("rotate-key")["stream"] != lone.stream["stream"]
        assert lone.call("DELETE").status == 204
        assert lone.call("GET").status == 404


def test_the_settings_of_a_stream_apply_to_its_next_encoder(
    stream_owner: Owner, small_source: Path
) -> None:
    """By default the service waits 20 s for an encoder that has said goodbye."""
    url = f"{stream_owner.api.http}/api/projects/1/settings"

    def wait_at_most(seconds: float) -> None:
        body = {"failover": {"goodbye_seconds": seconds, "reconnect_seconds": seconds}}
        assert fetch(url, method="PUT", token=stream_owner.api.token, body=body).status == 200

    wait_at_most(0)
    try:
        with publishing(stream_owner.sending(small_source)):
            stream_owner.on_air()
            first = addresses(stream_owner.playlist)
        poll(lambda: all(media(url).ended for url in first.values()), within=8, what="the end")
        _settled_by_itself(stream_owner, small_source, first)
    finally:
        wait_at_most(20)


def _settled_by_itself(stream_owner: Owner, small_source: Path, first: dict[str, str]) -> None:
    """Check that the stream's settings take precedence over the project's."""
    own_service = {"failover": {"goodbye_seconds": 20, "reconnect_seconds": 20}}
    answer = stream_owner.call("PUT", "/settings", own_service)
    assert answer.status == 200, answer.text
    with publishing(stream_owner.sending(small_source)):
        poll(lambda: set(addresses(stream_owner.playlist).values()) - set(first.values()),
              within=30, what="another run")  # fmt: skip
        second = addresses(stream_owner.playlist)
    poll(lambda: not stream_owner.shown()["receiving_count"], within=10, what="nobody sends")
    assert not any(media(url).ended for url in second.values())
    assert stream_owner.shown()["processing"] is True
