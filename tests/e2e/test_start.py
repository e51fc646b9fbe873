"""The first start, the second, and the ways in which a start is refused."""

import datetime
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headend.install.certificates import ensure_local_certificates
from headend.security_log import security_log_path
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service
from tests.support.free_ports import free_port
from tests.support.redis_server import redis_server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HEADEND = str(Path(sys.executable).with_name("headend"))


def test_a_start_is_ready_within_three_seconds_and_the_next_keeps_all_and_hides_the_key(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with service(folder, may_fork=False) as first:
        assert first.started_seconds <= 3 * SCALE
        assert fetch(f"{first.http}/healthz").status == 200
        assert fetch(f"{first.http}/readyz").json["problems"] == []
        assert b"headend_ingest_connections 0.0" in fetch(f"{first.status}/metrics").body
        # Metrics name unpublished streams: they are not public.
        metrics = f"{first.http}/metrics"
        assert [fetch(metrics).status, fetch(metrics, token="wrong").status] == [401, 401]
        assert b"headend_ingest_connections 0.0" in fetch(metrics, token=first.token).body
        listed = fetch(f"{first.http}/api/projects/1/streams", token=first.token)
        identity = (first.hash, first.key, first.token, Path(first.authority).read_bytes())
        assert first.stop() == 0
    events = security_log_path(folder, "serve").read_text().splitlines()
    security = [json.loads(line) for line in events]
    assert {(each["event"], each["peer"]) for each in security} == {("token refused", "127.0.0.1")}
    assert stat.S_IMODE((folder / "owner.token").stat().st_mode) == 0o600
    assert "My first stream" in listed.text
    # Without a terminal it does not print the key, but the command that does.
    with service(folder, terminal=False) as second:
        assert "headend streams" in second.printed
        assert first.key.split("_")[1] not in second.printed
        printed = run_headend("streams", "--data", str(folder))
        assert printed.returncode == 0, printed.stderr
        key = printed.stdout.split("\t")[2]
        second_identity = (second.hash, key, second.token, Path(second.authority).read_bytes())
        assert second_identity == identity
    log = first.log.read_text()
    assert first.key.split("_")[1] not in log
    assert identity[2] not in log


@pytest.fixture(scope="module")
def redis_port() -> int:
    """A port on which there is no Redis at first."""
    return free_port()


@pytest.fixture(scope="module")
def waiting(redis_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service that runs although its Redis is not available."""
    environment = {"HEADEND_REDIS__URL": f"redis://127.0.0.1:{redis_port}/0"}
    folder = tmp_path_factory.mktemp("waiting") / "data"
    with service(folder, environment=environment) as running:
        yield running


def test_whatever_it_stores_is_readable_by_its_own_user_only(waiting: ServiceProcess) -> None:
    uploads = f"{waiting.http}/api/projects/1/uploads"
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "9"}
    creation = fetch(uploads, method="POST", token=waiting.token, headers=tus)
    assert creation.status == 201, creation.text
    piece = {
        "Tus-Resumable": "1.0.0",
        "Upload-Offset": "0",
        "Content-Type": "application/offset+octet-stream",
    }
    patch = fetch(
        creation.headers["location"],
        method="PATCH",
        token=waiting.token,
        headers=piece,
        data=b"half",
    )
    assert patch.status == 204, patch.text
    paths = [waiting.data, *waiting.data.rglob("*")]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert any(path.startswith(str(waiting.data / "objects" / "uploads")) for path in modes)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.prove
def test_two_services_on_one_folder_are_refused(tmp_path: Path) -> None:
    with service(tmp_path / "data") as running:
        second = subprocess.run(
            [HEADEND, "serve", "--data", str(running.data), "--http", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            timeout=20 * SCALE,
            check=False,
        )
        assert second.returncode == 1
        assert "another Headend is running" in second.stderr
        assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "word"),
    [
        pytest.param(("--http", "nowhere"), {}, "nowhere", marks=pytest.mark.prove),
        (("--http", "192.0.2.1:1"), {}, "192.0.2.1:1"),
        pytest.param((), {"HEADEND_HTTP__PORT": "1"}, "http.port", marks=pytest.mark.prove),
        ((), {"HEADEND_RTMPS__CERTIFICATE": "/none.pem"}, "/none.pem"),
    ],
)
def test_a_start_that_fails_prints_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], word: str
) -> None:
    result = subprocess.run(
        [
            HEADEND, "serve", "--data", str(tmp_path / "data"), "--http", "127.0.0.1:0",
            "--rtmp", "[::]:0", "--rtmps", "[::]:0", *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=20 * SCALE,
        env={"PATH": "/usr/bin:/bin", **environment},
        check=False,
    )  # fmt: skip
    assert result.returncode != 0
    assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_settings_are_printed_with_unit_and_source() -> None:
    result = subprocess.run(
        [HEADEND, "settings", "--http", "127.0.0.1:7"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin", "HEADEND_LIVE__LISTED_SECONDS": "40"},
        check=True,
    )
    lines = {line.split(" = ")[0].strip(): line for line in result.stdout.splitlines()}
    assert '"127.0.0.1:7"' in lines["http.listen"]
    assert "[command line]" in lines["http.listen"]
    assert "40.0 s  [HEADEND_LIVE__LISTED_SECONDS]" in lines["live.listed_seconds"]
    assert "= empty  [default]" in lines["failover.detect_seconds"]
    assert json.loads(
        subprocess.run(
            [HEADEND, "settings", "--json"], capture_output=True, text=True, check=True
        ).stdout
    )


def test_a_lost_database_is_reported_in_one_sentence_and_costs_no_media(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    file = folder / "objects" / "sources" / "AAAAAAAAAAAA" / "1"
    migration = run_headend("migrate", "--data", str(folder))
    assert migration.returncode == 0, migration.stderr
    file.parent.mkdir(parents=True)
    file.write_bytes(b"media")
    for each in (file, file.parent):  # older than files whose row may still be added
        os.utime(each, (1, 1))
    (folder / "catalog.sqlite").rename(tmp_path / "lost")
    for role in ("serve", "migrate"):
        result = subprocess.run(
            [HEADEND, role, "--data", str(folder), "--http", "127.0.0.1:0", "--rtmp", "[::]:0",
             "--rtmps", "[::]:0"],
            capture_output=True,
            text=True,
            timeout=20 * SCALE,
            check=False,
        )  # fmt: skip
        assert result.returncode == 1
        assert f"the media in {folder / 'objects'} do not belong to the catalog" in result.stderr
        assert "Traceback" not in result.stderr
        assert file.read_bytes() == b"media"
    (tmp_path / "lost").rename(folder / "catalog.sqlite")
    with service(folder) as running:
        assert fetch(f"{running.http}/readyz").json["problems"] == []


def test_a_missing_redis_is_logged_once_and_used_once_it_is_available(
    waiting: ServiceProcess, redis_port: int, tmp_path: Path
) -> None:
    answer = fetch(f"{waiting.http}/readyz")
    assert (answer.status, answer.json["status"]) == (200, "ready")
    assert "Redis does not answer" in str(answer.json["problems"])
    number = waiting.add_stream("Without Redis")["id"]
    read = fetch(f"{waiting.http}/api/streams/{number}", token=waiting.token)
    assert read.status == 200, read.text
    assert "Without Redis" in read.text
    log = waiting.log.read_text()
    assert (log.count('event="bus lost"'), log.count('event="bus listens"')) == (1, 0)
    with redis_server(tmp_path, redis_port):
        poll(lambda: 'event="bus listens"' in waiting.log.read_text(), within=10, what="the bus")
        poll(lambda: fetch(f"{waiting.http}/readyz").json["problems"] == [], within=10,
             what="no problem")  # fmt: skip
        log = waiting.log.read_text()
        # The attempts until then failed without another log line.
        assert (log.count('event="bus lost"'), log.count('event="bus listens"')) == (1, 1)


def shown_certificate(port: int) -> bytes:
    """Return the certificate of the RTMPS port, without verifying it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5 * SCALE) as plain,
        context.wrap_socket(plain) as secure,
    ):
        certificate = secure.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_an_own_certificate_is_served_and_renewed_on_sighup(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    files = ensure_local_certificates(tmp_path / "own", ["tv.example.org"], now)
    environment = {
        "HEADEND_RTMPS__CERTIFICATE": str(files.leaf),
        "HEADEND_RTMPS__KEY": str(files.leaf_key),
    }
    with service(tmp_path / "data", environment=environment) as running:
        port = running.port_of(running.secure_server)
        assert "trust" not in running.printed
        before = shown_certificate(port)
        good = files.leaf.read_bytes()
        files.leaf.write_text("no certificate")
        running.process.send_signal(signal.SIGHUP)
        poll(lambda: "certificate not loaded" in running.log.read_text(), within=5, what="a line")
        assert shown_certificate(port) == before
        files.leaf.write_bytes(good)
        ensure_local_certificates(tmp_path / "own", ["tv.example.org", "in.example.org"], now)
        running.process.send_signal(signal.SIGHUP)
        poll(lambda: shown_certificate(port) != before, within=5, what="the new certificate")
