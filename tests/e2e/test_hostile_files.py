"""Hostile files, all at once, beside a live stream: each is refused or fails with a sentence.

The encoder that is on air meanwhile loses no frame, the service does not grow, nobody else's file
is opened, no server is called, and a good film becomes a video afterwards.
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
from tests.e2e.test_abuse import digests
from tests.e2e.test_videos import X264, completed, get_json, upload
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    media,
    multivariant,
)
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, without_slate
from tests.support.engine.upload_files import film
from tests.support.transcode.canary import Canary, canary
from tests.support.transcode.hostile_files import BOMBS, DISGUISES, PICTURE_BOMBS, REFERENCES
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

# What the service holds of twenty uploads at once: buffers of 1 MiB and the answers.
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
# As their senders name them: paths, controls, quotes, another header, more than any name may have.
NAMES = (
    "../../../etc/cron.d/a.mp4", "..\\..\\a.mp4", "a\0.mp4", "/etc/passwd", "x" * 3_000 + ".mp4",
    "a.m3u8", "a.svg", "file:///etc/passwd", "-i.mp4", "%2e%2e%2fa.mp4", "\u202e4pm.exe", "|id.mp4",
    "a;id.mp4", "<script>.mp4", "con.mp4", "..", ".", "a\tb.mp4", " .mp4", "concat:a|b.ts",
)  # fmt: skip


def callers(headend: ServiceProcess) -> list[str]:
    """Return tokens: one alone may not send so many files at once."""
    found: list[str] = []
    for name in ("one", "two", "three", "four"):
        answer = fetch(
            f"{headend.http}/api/tokens", method="POST", token=headend.token,
            body={"name": name, "project": 1, "write": True},
        )  # fmt: skip
        assert answer.status == 201, answer.text
        found.append(str(answer.json["secret"]))
    return found


def send(headend: ServiceProcess, token: str, name: str, data: bytes) -> tuple[int, dict[str, Any]]:
    """Upload a file under a name, octet for octet; return status and answer.

    While the project sends too many at once, try again after the time that the answer names.
    """
    edge = secrets.token_hex(8)
    said = name.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    body = f'--{edge}\r\nContent-Disposition: form-data; name="video"; filename="'.encode() + said
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
    """Send one request; return status, answer and for how many seconds to wait."""
    line = http.client.HTTPConnection(headend.http.split("//")[1], timeout=60 * SCALE)
    try:
        line.request("POST", "/api/projects/1/videos", body, headers)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read()), float(answer.headers["Retry-After"] or 0)
    finally:
        line.close()


def files(bird: Canary, good: bytes) -> dict[str, bytes]:
    """The twenty."""
    found = {name: REFERENCES[name](bird) for name in NAMED}
    found |= {name: BOMBS[name]() for name in BOMBED}
    found |= {name: DISGUISES[name][0](good) for name in DISGUISED}
    name = "PNG, a packed profile"
    return found | {name: PICTURE_BOMBS[name]()}


def memory(headend: ServiceProcess) -> int:
    """Return the resident bytes of the service, without its engines."""
    status = Path(f"/proc/{headend.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


class MemoryMonitor:
    """The most memory that the service held since it began, and how its engines ran meanwhile.

    Of each kind of engine: niceness and scheduling policy.
    """

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
        if b"transcode.engine" in words and "Seccomp:\t2" in status:  # it is in its box
            kind = words[words.index(b"transcode.engine") + 1].decode()
            ways = (os.getpriority(os.PRIO_PROCESS, child), os.sched_getscheduler(child))
            self.engines.setdefault(kind, set()).add(ways)

    @property
    def growth(self) -> int:
        return self.most - self.before


@contextmanager
def measured(headend: ServiceProcess) -> Generator[MemoryMonitor]:
    """Look at the service's memory for the length of the block."""
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
    """Return how a file ended, and with which words."""
    if status == 422:
        return "refused", "\n".join(itertools.chain(*answer["errors"].values()))
    assert status == 201, (status, answer)
    path = f"/api/videos/{answer['video']['id']}/status"

    def over() -> dict[str, Any] | None:
        shown = get_json(headend, path)
        return shown if shown["state"] in ("completed", "failed") else None

    shown = poll(over, within=90, what="the end of a hostile file")
    return str(shown["state"]), str(shown["reason"])


def test_twenty_hostile_files_cost_a_live_stream_no_frame(
    headend: ServiceProcess, small_source: Path, tmp_path: Path, proof: Proof
) -> None:
    without_slate(headend)
    good = film(tmp_path / "good.mp4", *X264, "-movflags", "+faststart", seconds=4)
    secret = film(tmp_path / "secret.ts", *X264, seconds=1)
    progress, held = tmp_path / "progress.txt", dict[str, CollectedRendition]()
    options = ("-stream_loop", "-1", "-progress", str(progress))
    command = ffmpeg(small_source, f"{headend.server}/{headend.key}", *options)
    left = threading.Event()

    def watch() -> None:
        while not left.wait(0.7):
            with suppress(AssertionError):  # not listed yet
                collect(headend.playlist, held)

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
                sent = {
                    name: threads.submit(send, headend, token, named, data)
                    for token, (name, data), named in zip(
                        itertools.cycle(tokens), hostile.items(), NAMES, strict=False
                    )
                }
                answers = {name: each.result() for name, each in sent.items()}
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
            files_ways = {(min(most, base + nice), os.SCHED_BATCH) for nice in (7, 10)}
            assert measuring.engines.pop("live") == {(min(most, base + 5), os.SCHED_OTHER)}
            assert "asset" in measuring.engines or "probe" in measuring.engines
            assert all(ways <= files_ways for ways in measuring.engines.values())
            assert encoder.poll() is None
            status, answer = upload(headend, good)
            assert status == 201, answer
            completed(headend, answer["video"]["id"], within=60)
            assert encoder.poll() is None
        finally:
            encoder.send_signal(signal.SIGINT)
            encoder.wait(timeout=10 * SCALE)
            left.set()
    poll(
        lambda: all(media(address).ended for address in addresses(headend.playlist).values()),
        within=20,
        what="the run's end",
    )
    collect(headend.playlist, held)
    shown = re.findall(r"^frame=\s*(\d+)", progress.read_text(), re.MULTILINE)
    top = held["360p"]
    assert sorted(top.segments) == list(range(len(top.segments)))
    assert not any(segment.discontinuity for segment in top.segments.values())
    arrived = digests(top.file(tmp_path / "top.mp4"))
    assert arrived == list(itertools.islice(itertools.cycle(digests(small_source)), int(shown[-1])))
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
    proof("frames of the encoder on air meanwhile", f"{len(arrived)} of {shown[-1]}", "all")
    proof("most that the service grew meanwhile", f"{measuring.growth >> 20} MiB", "below 64 MiB")
