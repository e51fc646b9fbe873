"""Hostile files, all at once, beside a live stream: each is refused or fails with a sentence.

Meanwhile the encoder on air loses no frame, the service's memory does not grow, no other file is
opened, and no server is called; afterwards a good film becomes a video.
"""

import http.client
import itertools
import json
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Proof
from tests.e2e.test_videos import X264, completed, get_json, upload
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    collect,
    decoder_errors,
    has_ended,
    multivariant,
    picture_digests,
)
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, without_slate
from tests.support.engine.upload_files import film
from tests.support.transcode.canary import Canary, canary
from tests.support.transcode.hostile_files import BOMBS, DISGUISES, PICTURE_BOMBS, REFERENCES
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

# For twenty uploads at once: buffers of 1 MiB, and the answers.
GROWTH_BYTES = 64 << 20
NAMED = (
    "HLS, file:", "HLS, http:", "HLS, subfile:", "HLS, a playlist of playlists",
    "a list for concat", "DASH, http:", "SDP", "samples elsewhere, by URL",
    "AVI, a playlist for subtitles", "SVG",
)  # fmt: skip
BOMBED = (
    "an index that is packed", "a million tracks, MP4", "200 000 tracks, Matroska",
    "50 million samples", "zeros behind a beginning",
)  # fmt: skip
DISGUISED = ("a gzip of a film", "a playlist, then a film", "half a film", "a film, then a zip")
# The senders' file names: paths, control characters, quotes, another header, excessive length.
NAMES = (
    "../../../etc/cron.d/a.mp4", "..\\..\\a.mp4", "a\0.mp4", "/etc/passwd", "x" * 3_000 + ".mp4",
    "a.m3u8", "a.svg", "file:///etc/passwd", "-i.mp4", "%2e%2e%2fa.mp4", "\u202e4pm.exe", "|id.mp4",
    "a;id.mp4", "<script>.mp4", "con.mp4", "..", ".", "a\tb.mp4", " .mp4", "concat:a|b.ts",
)  # fmt: skip


def callers(headend: ServiceProcess) -> list[str]:
    """Return several tokens, since one may not send so many files at once."""
    tokens: list[str] = []
    for name in ("one", "two", "three", "four"):
        answer = fetch(
            f"{headend.http}/api/tokens", method="POST", token=headend.token,
            body={"name": name, "project": 1, "write": True},
        )  # fmt: skip
        assert answer.status == 201, answer.text
        tokens.append(str(answer.json["secret"]))
    return tokens


def send(headend: ServiceProcess, token: str, name: str, data: bytes) -> tuple[int, dict[str, Any]]:
    """Upload a file with exactly these bytes as its name; return status and answer.

    After 429, it is repeated once the time in the answer has passed.
    """
    edge = secrets.token_hex(8)
    escaped = name.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    body = (
        f'--{edge}\r\nContent-Disposition: form-data; name="video"; filename="'.encode() + escaped
    )
    body += b'"\r\n\r\n' + data + f"\r\n--{edge}--\r\n".encode()
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": f"multipart/form-data; boundary={edge}",
    }
    while True:
        status, answer, pause = post(headend, body, headers)
        if status != http.HTTPStatus.TOO_MANY_REQUESTS:
            return status, answer
        time.sleep(pause)


def post(
    headend: ServiceProcess, body: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, Any], float]:
    """Send one request; return status, answer and the seconds of its Retry-After."""
    line = http.client.HTTPConnection(headend.http.split("//")[1], timeout=60 * SCALE)
    try:
        line.request("POST", "/api/projects/1/videos", body, headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read()), float(answer.headers["Retry-After"] or 0)
    finally:
        line.close()


def files(bird: Canary, good: bytes) -> dict[str, bytes]:
    """Return the twenty files by name."""
    contents = {name: REFERENCES[name](bird) for name in NAMED}
    contents |= {name: BOMBS[name]() for name in BOMBED}
    contents |= {name: DISGUISES[name][0](good) for name in DISGUISED}
    name = "PNG, a packed profile"
    return contents | {name: PICTURE_BOMBS[name]()}


def memory(headend: ServiceProcess) -> int:
    """Return the resident bytes of the service, without its engines."""
    status = Path(f"/proc/{headend.process.pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) << 10


class MemoryMonitor:
    """The service's peak memory, and its engines' niceness and scheduling policy, by kind."""

    def __init__(self, headend: ServiceProcess) -> None:
        self.before = self.most = memory(headend)
        self.engines: dict[str, set[tuple[int, int]]] = {}
        self._headend = headend

    def sample(self, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            self.most = max(self.most, memory(self._headend))
            for task in Path(f"/proc/{self._headend.process.pid}/task").glob("*/children"):
                for child in task.read_text().split():
                    with suppress(OSError):  # gone meanwhile
                        self._see(int(child))

    def _see(self, child: int) -> None:
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        status = Path(f"/proc/{child}/status").read_text()
        if b"transcode.engine" in words and "Seccomp:\t2" in status:  # it is in its sandbox
            kind = words[words.index(b"transcode.engine") + 1].decode()
            ways = (os.getpriority(os.PRIO_PROCESS, child), os.sched_getscheduler(child))
            self.engines.setdefault(kind, set()).add(ways)

    @property
    def growth(self) -> int:
        return self.most - self.before


@contextmanager
def measured(headend: ServiceProcess) -> Generator[MemoryMonitor]:
    """Measure the service's memory for the length of the block."""
    ended, measuring = threading.Event(), MemoryMonitor(headend)
    looking = threading.Thread(target=measuring.sample, args=(ended,))
    looking.start()
    try:
        yield measuring
    finally:
        ended.set()
        looking.join()


def is_sentence(text: str, bird: Canary) -> bool:
    hidden = (str(bird.path), bird.path.name, bird.web, "Errno", "Traceback", "/objects/")
    return text.endswith(".") and text[0].isupper() and not any(word in text for word in hidden)


def ended(headend: ServiceProcess, status: int, answer: dict[str, Any]) -> tuple[str, str]:
    """Return what became of a file, and the reason."""
    if status == 422:
        return "refused", "\n".join(itertools.chain(*answer["errors"].values()))
    assert status == 201, (status, answer)
    path = f"/api/videos/{answer['video']['id']}/status"

    def over() -> dict[str, Any] | None:
        record = get_json(headend, path)
        return record if record["state"] in ("completed", "failed") else None

    record = poll(over, within=90, what="the end of a hostile file")
    return str(record["state"]), str(record["reason"])


def test_twenty_hostile_files_cost_a_live_stream_no_frame(
    headend: ServiceProcess, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    without_slate(headend)
    good = film(tmp_path / "good.mp4", *X264, "-movflags", "+faststart", seconds=4)
    secret = film(tmp_path / "secret.ts", *X264, seconds=1)
    progress, collected = tmp_path / "progress.txt", dict[str, CollectedRendition]()
    options = ("-stream_loop", "-1", "-progress", str(progress))
    command = ffmpeg(small_source, f"{headend.server}/{headend.key}", *options)
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(0.7):
            with suppress(AssertionError):  # not listed yet
                collect(headend.playlist, collected)

    with canary(secret) as bird, publishing(command) as encoder, ThreadPoolExecutor(21) as threads:
        try:
            poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")
            threads.submit(watch)
            hostile = files(bird, good.read_bytes())
            tokens = callers(headend)
            assert len(hostile) == len(NAMES) == 20
            bird.alarms()
            began = time.monotonic()
            with measured(headend) as measuring:
                uploads = {
                    name: threads.submit(send, headend, token, named, data)
                    for token, (name, data), named in zip(
                        itertools.cycle(tokens), hostile.items(), NAMES, strict=False
                    )
                }
                answers = {name: each.result() for name, each in uploads.items()}
                seconds = time.monotonic() - began
                outcomes = {name: ended(headend, *answer) for name, answer in answers.items()}
            assert bird.alarms() == []
            for name, (state, words) in outcomes.items():
                if state == "completed":
                    assert name in DISGUISED, name
                else:
                    assert is_sentence(words, bird), (name, words)
            assert measuring.growth < GROWTH_BYTES
            base, most = os.nice(0), 19
            allowed_ways = {(min(most, base + nice), os.SCHED_BATCH) for nice in (7, 10)}
            assert measuring.engines.pop("live") == {(min(most, base + 5), os.SCHED_OTHER)}
            assert "asset" in measuring.engines or "probe" in measuring.engines
            assert all(ways <= allowed_ways for ways in measuring.engines.values())
            assert encoder.poll() is None
            status, answer = upload(headend, good)
            assert status == 201, answer
            completed(headend, answer["video"]["id"], within=60)
            assert encoder.poll() is None
        finally:
            encoder.send_signal(signal.SIGINT)
            encoder.wait(timeout=10 * SCALE)
            stopped.set()
    poll(
        lambda: has_ended(headend.playlist),
        within=20,
        what="the run's end",
    )
    collect(headend.playlist, collected)
    frame_counts = re.findall(r"^frame=\s*(\d+)", progress.read_text(), re.MULTILINE)
    top = collected["360p"]
    assert sorted(top.segments) == list(range(len(top.segments)))
    assert not any(segment.discontinuity for segment in top.segments.values())
    arrived = picture_digests(top.file(tmp_path / "top.mp4"))
    assert arrived == list(
        itertools.islice(itertools.cycle(picture_digests(small_source)), int(frame_counts[-1]))
    )
    assert decoder_errors(top.file(tmp_path / "top.mp4")) == ""
    log = headend.log.read_text()
    assert str(secret) not in log
    assert "Traceback" not in log
    counts = [state for state, _ in outcomes.values()]
    proof(
        "twenty hostile files at once",
        f"{counts.count('refused')} refused, {counts.count('failed')} failed with a reason,"
        f" {counts.count('completed')} made into what film they held; answered in {seconds:.1f} s",
        "none elsewhere",
    )
    proof("frames of the encoder on air meanwhile", f"{len(arrived)} of {frame_counts[-1]}", "all")
    proof("most that the service grew meanwhile", f"{measuring.growth >> 20} MiB", "below 64 MiB")
