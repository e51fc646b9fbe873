"""The largest upload, sent by curl to a separate process: its memory, and one byte more."""

import json
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.api.upload_clips import clip
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service

pytestmark = pytest.mark.e2e

MiB = 1 << 20
LARGEST = 500 * MiB


ENVIRONMENT = {
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    "HEADEND_RTMP__PUBLIC_URL": "rtmp://in.example",
    "HEADEND_RTMPS__PUBLIC_URL": "rtmps://in.example",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """The API in a separate, otherwise idle process."""
    with serving(tmp_path_factory.mktemp("api") / "data") as api:
        yield api


@contextmanager
def serving(data: Path) -> Generator[ServiceProcess]:
    done = run_headend("migrate", "--data", str(data))
    assert done.returncode == 0, done.stderr
    with service(data, role="api", environment=ENVIRONMENT) as api:
        yield api


def film(path: Path, size: int) -> Path:
    """Write a film of exactly `size` bytes, padded with a box that players skip."""
    data = clip()
    free = size - len(data)
    # A box of more than 4 GB would need the long form of its size; this one does not.
    box = free.to_bytes(4, "big") + b"free"
    with path.open("wb") as file:
        file.write(data + box)
        file.truncate(size)
    return path


def peak_bytes(pid: int) -> int:
    """Return a process's peak memory since `reset_peak`, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def curl(running: ServiceProcess, path: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    """Upload a file; return the status and the answer."""
    program = shutil.which("curl")
    assert program is not None, "curl is missing: apt-get install curl"
    done = subprocess.run(
        [
            program, "-sS", "-o", "-", "-w", "\n%{http_code}",
            "-H", f"Authorization: Bearer {running.token}",
            "-F", f"video=@{path}", *arguments,
            f"{running.http}/api/projects/1/videos",
        ],
        capture_output=True,
        timeout=120 * SCALE,
        check=False,
    )  # fmt: skip
    body, _, status = done.stdout.decode().rpartition("\n")
    return int(status), json.loads(body) if body else {}


def stored_files(running: ServiceProcess) -> list[Path]:
    """Return all uploaded files, including incomplete ones."""
    objects = running.data / "objects"
    return sorted(
        path
        for place in ("sources", "videos", ".temporary")
        for path in (objects / place).rglob("*")
        if path.is_file() and path.name != "reserve"
    )


def total_videos(running: ServiceProcess) -> object:
    answer = fetch(f"{running.http}/api/projects/1/videos", token=running.token)
    meta = answer.json["meta"]
    assert isinstance(meta, dict)
    return meta["total"]  # pyright: ignore[reportUnknownVariableType]  # JSON


def test_the_largest_film_takes_little_memory(
    running: ServiceProcess, tmp_path: Path, proof: Proof
) -> None:
    path = film(tmp_path / "Cel mai lung film.mp4", LARGEST)
    pid = running.process.pid
    # Memory that the first upload allocates for good does not count.
    status, _ = curl(running, film(tmp_path / "small.mp4", MiB))
    assert status == 201
    reset_peak(pid)
    idle = peak_bytes(pid)
    began = time.monotonic()
    status, body = curl(running, path, "-F", "title=Știri 🎬")
    seconds = time.monotonic() - began
    assert status == 201, body
    more = peak_bytes(pid) - idle
    video = body["video"]
    assert isinstance(video, dict)
    assert (video["size"], video["title"], video["width"]) == (LARGEST, "Știri 🎬", 640)
    source = running.data / "objects" / "sources" / str(video["hash"]) / "1"  # pyright: ignore[reportUnknownArgumentType]  # JSON
    assert source.stat().st_size == LARGEST
    proof(
        "upload of 500 MB: memory above idle", f"{more / MiB:.1f} MiB, {seconds:.0f} s", "< 40 MiB"
    )
    assert more < 40 * MiB


def test_one_byte_more_is_refused_and_leaves_nothing(
    running: ServiceProcess, tmp_path: Path
) -> None:
    path = film(tmp_path / "film.mp4", LARGEST + 1)
    before = stored_files(running), total_videos(running)
    status, body = curl(running, path)
    assert status == 413, body
    assert body["errors"] == {"video": [f"The video may have at most {LARGEST} bytes."]}
    assert (stored_files(running), total_videos(running)) == before


def test_a_client_that_is_killed_leaves_nothing(running: ServiceProcess, tmp_path: Path) -> None:
    path = film(tmp_path / "film.mp4", LARGEST)
    before = stored_files(running), total_videos(running)
    with pytest.raises(subprocess.CalledProcessError):
        # At this rate, curl is in the middle of the file when its time ends.
        subprocess.run(
            [
                "curl", "-sS", "--limit-rate", "20M", "--max-time", "2",
                "-H", f"Authorization: Bearer {running.token}", "-F", f"video=@{path}",
                f"{running.http}/api/projects/1/videos",
            ],
            timeout=60 * SCALE, check=True, capture_output=True,
        )  # fmt: skip
    deadline = time.monotonic() + 20 * SCALE
    while stored_files(running) != before[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (stored_files(running), total_videos(running)) == before


def test_a_service_that_is_killed_leaves_nothing_after_its_next_start(tmp_path: Path) -> None:
    path = film(tmp_path / "film.mp4", LARGEST)
    with serving(tmp_path / "data") as running:
        command = [
            "curl", "-sS", "--limit-rate", "20M",
            "-H", f"Authorization: Bearer {running.token}", "-F", f"video=@{path}",
            f"{running.http}/api/projects/1/videos",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as client:
            deadline = time.monotonic() + 20 * SCALE
            while not stored_files(running) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert stored_files(running)
            running.process.kill()
            running.process.wait()
            assert client.wait(timeout=30) != 0
        assert stored_files(running)
    with service(running.data, role="api", environment=ENVIRONMENT) as restarted:
        assert stored_files(restarted) == []
        assert total_videos(restarted) == 0
