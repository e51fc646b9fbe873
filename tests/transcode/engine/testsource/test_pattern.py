"""The test publisher as a process: what it sends, and how it ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import av
import msgspec
import pytest
from av import AudioFrame, VideoFrame

from tests.support.pattern_reader import beeps, flashes
from tests.support.waiting import SCALE, poll

ROOT = Path(__file__).parents[4]
FFMPEG = shutil.which("ffmpeg") or "ffmpeg"
KEY = "AbCdEfGhIjKl_00000000-1111-2222-3333-444444444444"
PATIENCE = 20 * SCALE  # seconds


class PublisherResult(msgspec.Struct, frozen=True):
    code: int
    error: str


class RunningPublisher:
    """A running publisher."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> PublisherResult:
        """Wait for its end, and leave its input open."""
        assert self.process.stderr is not None
        code = self.process.wait(PATIENCE)
        return PublisherResult(code, self.process.stderr.read().decode())


@contextmanager
def publishing(
    url: str, seconds: float | None = None, **more: int | list[int]
) -> Generator[RunningPublisher]:
    order = {"url": url, "seconds": seconds, "size": [320, 180], "fps": 30, **more}
    with subprocess.Popen(
        [sys.executable, "-m", "transcode.engine.testsource.pattern"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        try:
            yield RunningPublisher(process)
        finally:
            process.kill()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def frames_of(path: Path) -> tuple[list[VideoFrame], list[AudioFrame]]:
    pictures: list[VideoFrame] = []
    sounds: list[AudioFrame] = []
    with av.open(str(path), "r") as container:
        for frame in container.decode(video=0, audio=0):
            match frame:
                case VideoFrame():
                    pictures.append(frame)
                case AudioFrame():
                    sounds.append(frame)
                case _:
                    raise AssertionError(frame)
    return pictures, sounds


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float, str]:
    """Four seconds of publication; its file, how long it took, what it said."""
    path = tmp_path_factory.mktemp("pattern") / "out.flv"
    began = time.monotonic()
    with publishing(str(path), 4) as publisher:
        ended = publisher.ended()
    assert ended.code == 0
    return path, time.monotonic() - began, ended.error


def test_the_picture_comes_whole_and_in_time(published: tuple[Path, float, str]) -> None:
    path, seconds, output = published
    assert output == ""
    assert seconds > 119 / 30, "at the pace of the clock"
    pictures, _ = frames_of(path)
    assert len(pictures) == 120
    steps = [float((b.time or 0) - (a.time or 0)) for a, b in pairwise(pictures)]
    assert all(0.032 < step < 0.035 for step in steps)


def test_keyframes_are_two_seconds_apart(published: tuple[Path, float, str]) -> None:
    pictures, _ = frames_of(published[0])
    assert [index for index, picture in enumerate(pictures) if picture.key_frame] == [0, 60]


def test_the_sound_comes_whole(published: tuple[Path, float, str]) -> None:
    _, sounds = frames_of(published[0])
    assert {(sound.sample_rate, sound.layout.name) for sound in sounds} == {(48_000, "stereo")}
    steps = [float((b.time or 0) - (a.time or 0)) for a, b in pairwise(sounds)]
    assert all(0.020 < step < 0.023 for step in steps)
    assert 4 <= sum(sound.samples for sound in sounds) / 48_000 < 4.1


def test_flash_and_beep_come_together_each_second(published: tuple[Path, float, str]) -> None:
    pictures, sounds = frames_of(published[0])
    flash_times, beep_times = flashes(pictures), beeps(sounds)
    # The sound begins earlier and lasts a moment longer than the pictures; FLV counts milliseconds,
    # so a beep that belongs to the picture after the last may seem to be before it.
    over = float(pictures[-1].time or 0) + 1 / 30 - 0.005
    beep_times = [at for at in beep_times if flash_times[0] - 0.1 <= at < over]
    assert len(flash_times) >= 3
    assert len(flash_times) == len(beep_times)
    assert all(abs(a - b) < 0.005 for a, b in zip(flash_times, beep_times, strict=True))
    assert all(0.998 < after - before < 1.002 for before, after in pairwise(flash_times))


@contextmanager
def server(output: Path, *options: str) -> Generator[str]:
    """Run FFmpeg as an RTMP server for one publisher; yield the address to publish to."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"rtmp://127.0.0.1:{port}/live/{KEY}"
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    with subprocess.Popen(
        [FFMPEG, "-v", "error", "-listen", "1", "-f", "flv", *options, "-i", url,
         "-c", "copy", "-y", output],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            poll(lambda: listening in Path("/proc/net/tcp").read_text())
            yield url
            process.wait(PATIENCE)
        finally:
            process.kill()


def test_a_server_gets_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "got.flv"
    with server(path) as url, publishing(url, 2) as publisher:
        assert publisher.ended() == PublisherResult(0, "")
    pictures, sounds = frames_of(path)
    steps = [
        b.pts - a.pts for a, b in pairwise(pictures) if a.pts is not None and b.pts is not None
    ]
    # The last picture is the one of the end. Between two there is a frame, or what the publisher
    # leaves out when it is a second late: on a busy machine its encoder may take that long.
    assert pictures[-1].pts is not None
    assert pictures[-1].pts >= 59 * 1000 // 30
    assert all(step <= 34 or step > 1000 for step in steps)
    assert sounds


def test_a_server_that_goes_away_is_reported_in_a_line(tmp_path: Path) -> None:
    with server(tmp_path / "got.flv", "-t", "0.5") as url, publishing(url) as publisher:
        ended = publisher.ended()
    assert ended.code == 1
    assert ended.error.startswith("lost: ")
    assert ended.error.count("\n") == 1
    assert KEY not in ended.error


@contextmanager
def port(*, deaf: bool) -> Generator[int]:
    """Yield a port where nothing listens, or where connections are never answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number: int = listener.getsockname()[1]
        if deaf:
            yield number
    if not deaf:
        yield number


@pytest.mark.parametrize("scheme", ["rtmp", "rtmps"])
def test_a_refusal_is_one_line_without_the_key(scheme: str) -> None:
    with (
        port(deaf=False) as number,
        publishing(f"{scheme}://127.0.0.1:{number}/live/{KEY}") as publisher,
    ):
        ended = publisher.ended()
    assert ended.code == 1
    assert ended.error.startswith("refused: Connection to ")
    assert ended.error.count("\n") == 1
    assert KEY not in ended.error
    assert KEY.partition("_")[2] not in ended.error


def test_an_unknown_address_is_refused_without_showing_it() -> None:
    with publishing(f"nowhere://host/live/{KEY}") as publisher:
        assert publisher.ended() == PublisherResult(1, "refused: Protocol not found\n")


@pytest.mark.parametrize("how", ["the end of its input", "SIGTERM", "SIGINT"])
def test_the_publisher_stops_when_ordered(how: str, tmp_path: Path) -> None:
    path = tmp_path / "out.flv"
    with publishing(str(path)) as publisher:
        poll(lambda: size_of(path) > 20_000)
        cmdline = Path(f"/proc/{publisher.process.pid}/cmdline").read_bytes()
        assert path.name.encode() not in cmdline
        if how == "the end of its input":
            publisher.close_input()
        else:
            publisher.process.send_signal(signal.Signals[how])
        assert publisher.ended() == PublisherResult(0, "")
    pictures, sounds = frames_of(path)
    assert len(pictures) > 5
    assert sounds


def test_it_stops_when_the_server_never_answers() -> None:
    with (
        port(deaf=True) as number,
        publishing(f"rtmp://127.0.0.1:{number}/live/{KEY}") as publisher,
    ):
        publisher.close_input()
        assert publisher.ended() == PublisherResult(0, "")


@pytest.mark.prove
def test_a_server_that_never_answers_is_given_up() -> None:
    with (
        port(deaf=True) as number,
        publishing(f"rtmp://127.0.0.1:{number}/live/{KEY}") as publisher,
    ):
        assert publisher.ended() == PublisherResult(1, "no answer from the server for 10 s\n")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"fps": 0}, id="no frames"),
        pytest.param({"size": [321, 180]}, id="odd size"),
        pytest.param({"size": [320]}, id="half a size"),
        pytest.param({"sise": [320, 180]}, id="unknown word"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(more: dict[str, int | list[int]]) -> None:
    with publishing(f"rtmp://127.0.0.1/live/{KEY}", 1, **more) as publisher:
        ended = publisher.ended()
    assert ended.code == 1
    assert ended.error.startswith("no order: ")
    assert KEY not in ended.error
