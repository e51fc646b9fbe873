"""An hour of everything at once: streams, videos, viewers and attackers.

Three streams are on air, two videos are always being made, 200 viewers watch, and attackers use the
HTTP and RTMP ports all the time. Memory, descriptors and latencies must be constant, and no picture
may be lost. HEADEND_TEST_SOAK_SECONDS sets another length.
"""

import io
import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import av
import msgspec
import pytest

from tests.conftest import Proof
from tests.support.e2e.crowd import watching
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.repeating import repeating
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service, without_slate
from tests.support.e2e.strangers import AttackedPorts, attacking
from tests.support.e2e.uploaded_videos import get_json, upload
from tests.support.engine.upload_files import film
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

SECONDS: Final = float(os.environ.get("HEADEND_TEST_SOAK_SECONDS", "3600"))
STREAMS: Final = 3
VIEWERS: Final = 200
TOP: Final = "360p"
MEMORY_GROWTH: Final = 32 << 20  # bytes; an hour's events and counters take less
DESCRIPTOR_GROWTH: Final = 20
SLOWEST: Final = 1.0  # seconds: a playlist that is a second late is noticed
X264: Final = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


class ServiceSample(msgspec.Struct, frozen=True):
    """The service at one moment, without its engines."""

    at: float  # monotonic seconds
    memory: int  # bytes
    descriptors: int


class CountedStream:
    """The pictures of one stream's top rendition, counted as they are listed."""

    def __init__(self, playlist: str) -> None:
        self.playlist = playlist
        self.pictures = 0
        self.discontinuities = 0
        self.next = 0
        self.missed: list[int] = []
        self._init = b""

    def update(self) -> bool:
        """Count the new pictures; return whether the run has ended."""
        address = addresses(self.playlist)[TOP]
        playlist = media(address)
        for number, segment in enumerate(playlist.segments, playlist.sequence):
            if number < self.next:
                continue
            self.missed += range(self.next, number)
            self.next = number + 1
            self.discontinuities += segment.discontinuity
            assert segment.map_uri is not None
            self._init = self._init or fetch(urljoin(address, segment.map_uri)).body
            answer = fetch(urljoin(address, segment.uri))
            assert answer.status == 200, segment.uri
            with av.open(io.BytesIO(self._init + answer.body), "r") as container:
                packets = container.demux(container.streams.video[0])
                self.pictures += sum(packet.size > 0 for packet in packets)
        return playlist.ended


class RepeatedVideos:
    """Two videos that are always being made: a complete one is deleted and uploaded again."""

    def __init__(self, headend: ServiceProcess, path: Path) -> None:
        self._headend = headend
        self._path = path
        self._under_way = [self._upload(), self._upload()]
        self.completed = 0

    def update(self) -> None:
        """Replace each video that is complete."""
        for index, video in enumerate(self._under_way):
            address = f"/api/videos/{video}"
            state = get_json(self._headend, f"{address}/status")
            assert state["state"] != "failed", state
            if state["state"] == "completed":
                url = f"{self._headend.http}{address}"
                assert fetch(url, method="DELETE", token=self._headend.token).status == 204
                self._under_way[index] = self._upload()
                self.completed += 1

    def _upload(self) -> int:
        status, answer = upload(self._headend, self._path)
        assert status == 201, answer
        return int(answer["video"]["id"])


def sample(headend: ServiceProcess) -> ServiceSample:
    """Measure the service now."""
    folder = Path(f"/proc/{headend.process.pid}")
    match = re.search(r"VmRSS:\s+(\d+) kB", (folder / "status").read_text())
    assert match is not None
    return ServiceSample(
        time.monotonic(), int(match[1]) << 10, len(list((folder / "fd").iterdir()))
    )


def test_an_hour_of_everything_leaves_the_service_as_it_was(
    tmp_path: Path, small_source: Path, proof: Proof
) -> None:
    path = film(tmp_path / "film.mp4", *X264, seconds=60, size=(854, 480), rate=30)
    with ExitStack() as stack:
        headend = stack.enter_context(service(tmp_path / "data"))
        without_slate(headend)
        streams = [
            headend,
            *(headend.another(f"Stream {number}") for number in range(2, STREAMS + 1)),
        ]
        encoders: list[subprocess.Popen[bytes]] = []
        for number, stream in enumerate(streams):
            options = ("-stream_loop", "-1", "-progress", str(tmp_path / f"{number}.progress"))
            command = ffmpeg(small_source, f"{stream.server}/{stream.key}", *options)
            encoders.append(stack.enter_context(publishing(command)))
        for stream in streams:
            poll(lambda at=stream.playlist: multivariant(at), within=30, what="a playlist")
        counted = [CountedStream(stream.playlist) for stream in streams]
        videos = RepeatedVideos(headend, path)
        samples: list[ServiceSample] = []
        with ExitStack() as load:
            tops = [addresses(stream.playlist)[TOP] for stream in streams]
            crowd = load.enter_context(watching(tops, VIEWERS))
            target = AttackedPorts(
                http=int(headend.http.rsplit(":", 1)[1]),
                rtmp=headend.port_of(headend.server),
                playlist=urlsplit(tops[0]).path,
                web_socket="/app/anything?protocol=7",
            )
            attacks = load.enter_context(attacking(target))
            for each in counted:
                load.enter_context(repeating(each.update, 4))
            load.enter_context(repeating(videos.update, 5))
            load.enter_context(repeating(lambda: samples.append(sample(headend)), 5))
            began = time.monotonic()
            while time.monotonic() < began + SECONDS:
                assert [encoder.poll() for encoder in encoders] == [None] * STREAMS
                time.sleep(1)
        sent = [stop(encoder, tmp_path / f"{n}.progress") for n, encoder in enumerate(encoders)]
        for each in counted:
            poll(each.update, within=30, what="the run's end")
    third = SECONDS / 3
    early = [each for each in samples if began + third / 3 <= each.at < began + third]
    late = [each for each in samples if each.at >= began + 2 * third]
    grown = median(each.memory for each in late) - median(each.memory for each in early)
    opened = median(each.descriptors for each in late) - median(each.descriptors for each in early)
    thirds = [(began + n * third, began + (n + 1) * third) for n in range(3)]
    slow = [crowd.quantile(0.99, begin=begin, end=end) for begin, end in thirds]
    usual = [crowd.quantile(0.5, begin=begin, end=end) for begin, end in thirds]
    minutes = round(SECONDS / 60, 1)
    name = f"{minutes:g} min of {STREAMS} streams, 2 videos, {VIEWERS} viewers, strangers"
    proof(
        f"{name}: pictures lost",
        f"{sum(sent) - sum(e.pictures for e in counted)} of {sum(sent)}",
        "0",
    )
    proof(
        f"{name}: memory grown from the first third to the last",
        f"{grown / 2**20:+.1f} MiB",
        "32 MiB",
    )
    proof(f"{name}: descriptors more", f"{opened:+.0f}", "20")
    proof(
        f"{name}: 99 % of viewers' answers within, by third",
        ", ".join(f"{each * 1000:.0f} ms" for each in slow),
        "1 s",
    )
    proof(
        f"{name}: half of viewers' answers within, by third",
        ", ".join(f"{each * 1000:.1f} ms" for each in usual),
        "",
    )
    proof(f"{name}: answers to viewers", f"{dict(crowd.statuses)}", "200 alone")
    proof(f"{name}: attacks, videos made", f"{attacks.count}, {videos.completed}", "")
    assert [each.pictures for each in counted] == sent
    assert [each.missed for each in counted] == [[]] * STREAMS
    assert [each.discontinuities for each in counted] == [0] * STREAMS
    assert set(crowd.statuses) == {200}
    assert grown < MEMORY_GROWTH
    assert opened < DESCRIPTOR_GROWTH
    assert slow[2] < max(SLOWEST, 2 * slow[0])


def median(numbers: Iterable[int]) -> float:
    return statistics.median(numbers)


def stop(encoder: subprocess.Popen[bytes], progress: Path) -> int:
    """Stop an encoder as its user would, and return the number of pictures it sent."""
    encoder.send_signal(signal.SIGINT)
    encoder.wait(timeout=10 * SCALE)
    return int(re.findall(r"^frame=\s*(\d+)", progress.read_text(), re.MULTILINE)[-1])
