"""One server in one round: publishers connect and settle, then a period is measured."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.ingest.clip import SourceClip
from bench.ingest.processes import NoAnswer, cpu_ns, rss_bytes
from bench.ingest.publishers import FfmpegPublisher, publishing
from bench.ingest.servers import BenchServer, RunningServer, TlsFiles
from media.stream_keys import StreamKey

# What a publisher sends before and after the measured period: encoders start, servers settle.
SETTLE_SECONDS: Final = 2.0
MARGIN_SECONDS: Final = 5
START_SECONDS: Final = 60.0  # a deadline for ffmpeg on a machine that is busy
END_SECONDS: Final = 60.0
_SAMPLE_SECONDS: Final = 0.5  # between two readings of the memory


class MeasurementFailed(Exception):
    """A server lost data, or a publisher could not continue."""


class Overloaded(MeasurementFailed):
    """The publishers themselves fell behind real time: the machine, or a server that reads late."""


@dataclass(frozen=True)
class IngestLoad:
    """The load of a server: `publishers` send the clip, and `seconds` of that are measured."""

    clip: SourceClip
    publishers: int
    seconds: float


@dataclass(frozen=True)
class RoundCost:
    """The cost of a round of one server.

    `cost` is ms of CPU per second of one publisher's stream; memory is of the whole process tree:
    its peak, and its growth from the first fifth of the period to the last (medians of each).
    """

    cost: float
    peak_bytes: int
    growth_bytes: int


def measure(server: BenchServer, load: IngestLoad, tls: TlsFiles | None) -> RoundCost:
    """Run a server and its publishers once.

    Raises:
        MeasurementFailed: not all data was received, or not in real time.
    """
    with TemporaryDirectory(prefix="headend-bench-") as folder:
        try:
            with server.serve(Path(folder), tls) as serving:
                return _publish(server, serving, load, secure=tls is not None)
        except NoAnswer as error:
            raise MeasurementFailed(f"{server.name}: {error}") from error


def _publish(
    server: BenchServer, serving: RunningServer, load: IngestLoad, *, secure: bool
) -> RoundCost:
    scheme = "rtmps" if secure else "rtmp"
    keys = [StreamKey.new(f"bench{number:07}").text for number in range(load.publishers)]
    urls = [f"{scheme}://127.0.0.1:{serving.port}/live/{key}" for key in keys]
    with publishing(load.clip.path, urls) as publishers:
        _settle(server, publishers)
        figures = _measure_period(serving.pid, publishers, load.seconds)
        for publisher in publishers:
            code = publisher.wait(END_SECONDS)
            if code != 0:
                raise MeasurementFailed(
                    f"{server.name}: a publisher ended with {code}: {publisher.said}"
                )
        for _ in publishers:
            if wrong := server.lost(serving.closed(), load.clip):
                raise MeasurementFailed(f"{server.name} took in {wrong}")
    return figures


def _settle(server: BenchServer, publishers: Sequence[FfmpegPublisher]) -> None:
    until = time.monotonic() + START_SECONDS
    while any(publisher.sent == 0 for publisher in publishers):
        ended = [publisher.said for publisher in publishers if not publisher.running]
        if ended or time.monotonic() > until:
            raise MeasurementFailed(
                f"{server.name}: a publisher does not get in: {' '.join(ended)}"
            )
        time.sleep(0.05)
    time.sleep(SETTLE_SECONDS)


def _measure_period(pid: int, publishers: Sequence[FfmpegPublisher], seconds: float) -> RoundCost:
    sent, cpu, began = _sent(publishers), cpu_ns(pid), time.monotonic()
    memory = [rss_bytes(pid)]
    while (remaining := began + seconds - time.monotonic()) > 0:
        time.sleep(min(remaining, _SAMPLE_SECONDS))
        memory.append(rss_bytes(pid))
    cpu, elapsed, sent = cpu_ns(pid) - cpu, time.monotonic() - began, _sent(publishers) - sent
    if sent < 0.9 * elapsed * len(publishers):
        of = elapsed * len(publishers)
        raise Overloaded(f"publishers sent {sent:.1f} s of {of:.1f} s of media: not in real time")
    fifth = max(1, len(memory) // 5)
    growth = statistics.median(memory[-fifth:]) - statistics.median(memory[:fifth])
    # By real time, not by their reports, which are up to a fifth of a second late.
    return RoundCost(cpu / 1e6 / (elapsed * len(publishers)), max(memory), round(growth))


def _sent(publishers: Sequence[FfmpegPublisher]) -> float:
    return sum(publisher.sent for publisher in publishers)
