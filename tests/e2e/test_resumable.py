"""Resumable uploads through the real service: by tus-js-client, cut, across restarts, large."""

import hashlib
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Proof
from tests.support.api.upload_clips import clip
from tests.support.e2e.service import SCALE, Answer, ServiceProcess, fetch, service

pytestmark = pytest.mark.e2e

MiB = 1 << 20
TUS = {"Tus-Resumable": "1.0.0"}
# An API process does not know the ports that another one chose.
RTMP = {
    "HEADEND_RTMP__PUBLIC_URL": "rtmp://127.0.0.1",
    "HEADEND_RTMPS__PUBLIC_URL": "rtmps://127.0.0.1",
}
PIECE = bytes(range(256)) * (MiB // 256)

JsonObject = dict[str, Any]  # Any: the contents of the client's output lines


def large(size: int) -> tuple[bytes, bytes, int]:
    """Return the beginning of a video of `size` bytes, the padding box's header, and its rest."""
    begins = clip()
    rest = size - len(begins)
    return begins, rest.to_bytes(4, "big") + b"free", rest - 8


def written(path: Path, size: int) -> str:
    """Write a video of `size` bytes, and return its SHA-256."""
    digest = hashlib.sha256()
    begins, box, rest = large(size)
    with path.open("wb") as file:
        for piece in _pieces(begins, box, rest):
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def _pieces(begins: bytes, box: bytes, rest: int) -> Iterator[bytes]:
    yield begins
    yield box
    while rest:
        piece = PIECE[:rest]
        rest -= len(piece)
        yield piece


def by_page(packages: Path, order: JsonObject) -> list[JsonObject]:
    """Upload with tus-js-client, and return its output lines."""
    program = shutil.which("node")
    assert program is not None
    done = subprocess.run(
        [program, "upload.mjs", json.dumps(order)],
        cwd=packages, capture_output=True, text=True, timeout=120 * SCALE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def send_request(running: ServiceProcess, method: str, path: str, **headers: str) -> Answer:
    all_headers = {**TUS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return fetch(f"{running.http}{path}", method=method, token=running.token, headers=all_headers)


def create(running: ServiceProcess, length: int) -> str:
    answer = send_request(running, "POST", "/api/projects/1/uploads", Upload_Length=str(length))
    assert answer.status == 201, answer.text
    location = answer.headers["location"]
    return "/api/" + location.split("/api/", 1)[1]


def offset(running: ServiceProcess, path: str) -> int:
    answer = send_request(running, "HEAD", path)
    assert answer.status == 200, answer.status
    return int(answer.headers["upload-offset"])


def send(
    running: ServiceProcess, path: str, file: Path, at: int, until: int | None = None
) -> bytes:
    """Append from `at` on; with `until`, cut the connection there. Returns the answer's head."""
    size = file.stat().st_size
    head = (
        f"PATCH {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n"
        f"Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"
        f"Upload-Offset: {at}\r\nContent-Length: {size - at}\r\n\r\n"
    )
    with (
        socket.create_connection(
            ("127.0.0.1", running.port_of(running.http)), timeout=60 * SCALE
        ) as sock,
        file.open("rb") as source,
    ):
        sock.sendall(head.encode())
        sent = sock.sendfile(source, at, (size if until is None else until) - at)
        assert sent == (size if until is None else until) - at
        if until is not None:
            return b""
        answer = b""
        while b"\r\n\r\n" not in answer and (more := sock.recv(4096)):
            answer += more
        return answer


def memory(running: ServiceProcess) -> int:
    """Return the service's peak memory in bytes."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def sum_of(running: ServiceProcess, number: str) -> str:
    """Return the SHA-256 of a video's source file."""
    answer = fetch(f"{running.http}/api/videos/{number}", token=running.token)
    record: JsonObject = answer.json["data"]  # type: ignore[assignment]
    sources = Path(running.data, "objects", "sources", record["hash"]).iterdir()
    source = max(sources, key=lambda each: each.stat().st_mtime_ns)  # a former one is kept
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def completed(running: ServiceProcess, number: str) -> None:
    """Wait until a video plays."""
    deadline = time.monotonic() + 90 * SCALE
    while time.monotonic() < deadline:
        answer = fetch(f"{running.http}/api/videos/{number}/status", token=running.token)
        state: JsonObject = answer.json["data"]  # type: ignore[assignment]
        assert state["state"] != "failed", state
        if state["state"] == "completed":
            return
        time.sleep(0.2)
    raise AssertionError("the video does not play")


def test_a_page_uploads_aborts_and_resumes(tmp_path: Path, packages: Path) -> None:
    file = tmp_path / "film.mp4"
    with service(tmp_path / "data") as running:
        headers = {"Authorization": f"Bearer {running.token}"}
        own_options = {"endpoint": f"{running.http}/api/projects/1/uploads", "headers": headers}
        orders: list[tuple[JsonObject, int | None]] = [
            ({**own_options, "chunkSize": 16 * MiB, "metadata": {"filename": "a.mp4"}}, 3 * MiB),
            ({**own_options, "chunkSize": MiB, "uploadDataDuringCreation": True}, None),
            # If the last piece is a whole one, this client never declares it as the last.
            ({**own_options, "chunkSize": 3 * MiB, "uploadLengthDeferred": True}, None),
        ]
        leave = fetch(
            f"{running.http}/api/projects/1/upload-links",
            method="POST", token=running.token, body={"title": "Sent in"},
        )  # fmt: skip
        link: JsonObject = leave.json["upload_link"]  # type: ignore[assignment]
        orders.append(({"endpoint": link["address"], "chunkSize": 2 * MiB}, 4 * MiB))
        client_events: list[JsonObject] = []
        for options, abort in orders:
            sha = written(file, 8 * MiB)
            sized = {} if "uploadLengthDeferred" in options else {"uploadSize": 8 * MiB}
            client_events = by_page(
                packages,
                {"file": str(file), "options": {**options, **sized}, "abortAt": abort},
            )
            assert client_events[-1]["kind"] == "success", client_events[-3:]
            assert ("aborted" in {each["kind"] for each in client_events}) == (abort is not None)
            assert sum_of(running, client_events[-1]["video"]) == sha
        completed(running, client_events[-1]["video"])
        second_use = by_page(
            packages,
            {
                "file": str(file),
                "options": {"endpoint": link["address"], "chunkSize": MiB, "uploadSize": 8 * MiB,
                            "retryDelays": None},
                "abortAt": None,
            },
        )  # fmt: skip
        assert (second_use[-1]["kind"], second_use[-1]["status"]) == ("error", 409)
        # The secret of a link is in no log.
        assert link["address"].rpartition("/")[2] not in running.log.read_text()


@pytest.mark.prove
def test_a_page_replaces_a_file_with_one_too_large_for_a_form(
    tmp_path: Path, packages: Path
) -> None:
    file, size = tmp_path / "film.mp4", 600 * MiB
    written(file, 8 * MiB)
    with service(tmp_path / "data") as running:
        headers = {"Authorization": f"Bearer {running.token}"}
        own_options = {"endpoint": f"{running.http}/api/projects/1/uploads", "headers": headers}
        order: JsonObject = {
            "file": str(file),
            "options": {**own_options, "uploadSize": 8 * MiB},
            "abortAt": None,
        }
        first = by_page(packages, order)[-1]["video"]
        completed(running, first)
        before = fetch(f"{running.http}/api/videos/{first}", token=running.token)
        leave = fetch(
            f"{running.http}/api/projects/1/upload-links",
            method="POST", token=running.token, body={"video_id": int(first)},
        )  # fmt: skip
        link: JsonObject = leave.json["upload_link"]  # type: ignore[assignment]
        named = {**own_options, "metadata": {"filename": "a.mp4", "replaces": first}}
        for options, length in ((named, size), ({"endpoint": link["address"]}, 9 * MiB)):
            sha = written(file, length)
            client_events = by_page(
                packages,
                {
                    "file": str(file),
                    "options": {**options, "chunkSize": 64 * MiB, "uploadSize": length},
                    "abortAt": length // 3,
                },
            )
            assert (client_events[-1]["kind"], client_events[-1]["video"]) == ("success", first), (
                client_events[-3:]
            )
            assert "aborted" in {each["kind"] for each in client_events}
            assert sum_of(running, first) == sha
            completed(running, first)
        after = fetch(f"{running.http}/api/videos/{first}", token=running.token)
        old: JsonObject = before.json["data"]  # type: ignore[assignment]
        new: JsonObject = after.json["data"]  # type: ignore[assignment]
        assert (new["hash"], new["title"], new["size"]) == (old["hash"], old["title"], 9 * MiB)
        listed = fetch(f"{running.http}/api/projects/1/videos", token=running.token)
        assert [each["id"] for each in listed.json["data"]] == [int(first)]  # type: ignore[index]


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.prove), signal.SIGKILL]
)
def test_an_upload_is_resumed_after_a_restart_of_the_service(tmp_path: Path, number: int) -> None:
    file = tmp_path / "film.mp4"
    sha = written(file, 24 * MiB)
    with service(tmp_path / "data") as running:
        path = create(running, 24 * MiB)
        send(running, path, file, 0, 9 * MiB)
        first = offset(running, path)
        assert 0 < first <= 9 * MiB
        # The service stops while it receives bytes.
        with socket.create_connection(("127.0.0.1", running.port_of(running.http))) as sock:
            head = (
                f"PATCH {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n"
                "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"
                f"Upload-Offset: {first}\r\nContent-Length: {24 * MiB - first}\r\n\r\n"
            )
            sock.sendall(head.encode())
            with file.open("rb") as source:
                sock.sendfile(source, first, 6 * MiB)
            running.stop(number)
    with service(tmp_path / "data") as running:
        at = offset(running, path)
        assert first <= at <= first + 6 * MiB
        answer = send(running, path, file, at)
        assert answer.startswith(b"HTTP/1.1 204 "), answer
        video = answer.lower().split(b"headend-video-id: ")[1].split(b"\r\n")[0].decode()
        assert sum_of(running, video) == sha
        completed(running, video)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(200 * MiB, id="200 MB"),
        pytest.param(2048 * MiB, id="2 GB", marks=pytest.mark.prove),
    ],
)
def test_a_large_file_cut_ten_times_is_received_whole_with_constant_memory(
    tmp_path: Path, size: int, proof: Proof
) -> None:
    file = tmp_path / "film.mp4"
    sha = written(file, size)
    with service(tmp_path / "data") as running:
        path = create(running, 100)
        send_request(running, "DELETE", path)
        before = memory(running)
        path = create(running, size)
        at = 0
        for cut in range(1, 11):
            send(running, path, file, at, max(at, size * cut // 11))
            previous, at = at, offset(running, path)
            assert at >= previous
        assert at > size // 2
        answer = send(running, path, file, at)
        assert answer.startswith(b"HTTP/1.1 204 "), answer
        grown = memory(running) - before
        video = answer.lower().split(b"headend-video-id: ")[1].split(b"\r\n")[0].decode()
        assert sum_of(running, video) == sha
        assert grown < 64 * MiB
        proof(
            f"memory that a resumable upload of {size // MiB} MiB takes, cut ten times",
            f"{grown / MiB:.0f} MiB",
            "< 64 MiB",
        )
        listed = fetch(f"{running.http}/api/projects/1/videos", token=running.token)
        assert listed.json["meta"]["total"] == 1  # type: ignore[index]


@pytest.mark.prove
def test_two_processes_hand_an_upload_over(tmp_path: Path) -> None:
    """Another process of the same data folder takes over from one that is still receiving."""
    file = tmp_path / "film.mp4"
    sha = written(file, 16 * MiB)
    data = tmp_path / "data"
    with service(data) as running, service(data, role="api", environment=RTMP) as other:
        path = create(running, 16 * MiB)
        with socket.create_connection(("127.0.0.1", running.port_of(running.http))) as sock:
            head = (
                f"PATCH {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n"
                "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n"
                f"Upload-Offset: 0\r\nContent-Length: {16 * MiB}\r\n\r\n"
            )
            sock.sendall(head.encode())
            with file.open("rb") as source:
                sock.sendfile(source, 0, 5 * MiB)
            deadline = time.monotonic() + 20 * SCALE
            while shown(running, path)["offset"] < 5 * MiB and time.monotonic() < deadline:
                time.sleep(0.1)
            at = offset(other, path)
            assert at == 5 * MiB
            answer = send(other, path, file, at)
            assert answer.startswith(b"HTTP/1.1 204 "), answer
            sock.settimeout(20 * SCALE)
            assert sock.recv(4096).startswith(b"HTTP/1.1 423 ")
        video = answer.lower().split(b"headend-video-id: ")[1].split(b"\r\n")[0].decode()
        assert sum_of(running, video) == sha


def shown(running: ServiceProcess, path: str) -> JsonObject:
    data: JsonObject = fetch(f"{running.http}{path}", token=running.token).json["data"]  # type: ignore[assignment]
    return data
