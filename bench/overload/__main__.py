"""The command `python -m bench.overload`: what each of a growing number of streams delivers.

For each number of streams a fresh service gets live 1080p30 publishers of 6 Mbit/s with the whole
ladder on. After `--seconds` it prints, for each stream, the rungs that are made, the lag behind the
publisher (the most, and at the end), and the packets dropped. The status is 1 if a stream dropped
packets, lost the rung of its source's own packets, or lags at the end.
"""

import argparse
import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.ingest.clip import make_clip

__all__ = ["main"]

_START_SECONDS: Final = 60.0
_SAMPLE_SECONDS: Final = 1.0
# Players of the page are 6 s behind the newest segment.
_MAX_LAG_SECONDS: Final = 6.0
_MAX_LAG_AT_END: Final = 3.0
_METRIC: Final = re.compile(r"^(headend_\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


class BenchService(msgspec.Struct, frozen=True):
    """A running service: the addresses of HTTP and RTMP, and the owner's token."""

    http: str
    rtmp: str
    token: str

    def metrics(self) -> dict[tuple[str, str, str], float]:
        """Return the metrics by name, stream and rendition."""
        request = urllib.request.Request(
            f"{self.http}/metrics", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
        found: dict[tuple[str, str, str], float] = {}
        for name, labels, value in _METRIC.findall(text):
            named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if "stream" in named:
                found[name, named["stream"], named.get("rendition", "")] = float(value)
        return found

    def add_stream(self, title: str) -> tuple[str, str]:
        """Add a stream and return its hash and its key."""
        request = urllib.request.Request(
            f"{self.http}/api/projects/1/streams",
            data=json.dumps({"title": title}).encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            stream = json.load(answer)["stream"]
        return stream["hash"], stream["stream"]


class StreamResult(msgspec.Struct):
    """What one stream delivered."""

    made: dict[str, bool]
    max_lag: float = 0.0
    lag: float = 0.0
    dropped: int = 0
    sheds: int = 0

    @property
    def faults(self) -> list[str]:
        """What the stream failed to deliver."""
        wrong: list[str] = []
        if self.dropped:
            wrong.append(f"{self.dropped} packets dropped")
        if not self.made.get("1080p"):
            wrong.append("the source's own rung is gone")
        if self.lag > _MAX_LAG_AT_END:
            wrong.append(f"{self.lag:.1f} s late at the end")
        return wrong


@contextmanager
def _service(folder: Path) -> Generator[BenchService]:
    command = [
        str(Path(sys.executable).with_name("headend")), "serve", "--data", str(folder / "data"),
        "--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--rtmps", "",
    ]  # fmt: skip
    environment = {**os.environ, "HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
    try:
        printed = _read_welcome(process)
        yield BenchService(
            http=_search(r"Watch\s+(\S+)/watch/", printed),
            rtmp=_search(r"Server\s+(\S+)", printed),
            token=(folder / "data" / "owner.token").read_text().strip(),
        )
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read_welcome(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    printed, deadline = "", time.monotonic() + _START_SECONDS
    while "Owner token" not in printed and time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 0.2)[0]:
            printed += os.read(process.stdout.fileno(), 65536).decode()
    return printed


def _search(pattern: str, printed: str) -> str:
    found = re.search(pattern, printed)
    if found is None:
        raise SystemExit(f"the service did not start: {printed}")
    return found[1]


@contextmanager
def _publisher(clip: Path, url: str) -> Generator[None]:
    command = ["ffmpeg", "-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip)]
    process = subprocess.Popen([*command, "-c", "copy", "-f", "flv", url])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _measure(clip: Path, streams: int, seconds: float) -> list[StreamResult]:
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        service = stack.enter_context(_service(Path(name)))
        made = [service.add_stream(f"Stream {number}") for number in range(streams)]
        for _, key in made:
            stack.enter_context(_publisher(clip, f"{service.rtmp}/{key}"))
        found = {hash_: StreamResult({}) for hash_, _ in made}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(_SAMPLE_SECONDS)
            _sample(service, found)
        return list(found.values())


def _sample(service: BenchService, found: dict[str, StreamResult]) -> None:
    figures = service.metrics()
    for hash_, one in found.items():
        one.lag = figures.get(("headend_run_lag_seconds", hash_, ""), 0.0)
        one.max_lag = max(one.max_lag, one.lag)
        one.dropped = int(figures.get(("headend_run_dropped_packets_total", hash_, ""), 0))
        one.sheds = int(figures.get(("headend_run_rungs_shed_total", hash_, ""), 0))
        one.made = {
            rung: value == 1
            for (name, stream, rung), value in figures.items()
            if name == "headend_rung_made" and stream == hash_
        }


def main() -> int:
    """Run what the command line asks for and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each number: 60")
    options = parser.parse_args()
    wrong: list[str] = []
    print(f"{os.cpu_count()} cores; live 1080p30 publishers of 6 Mbit/s, {options.seconds:g} s\n")
    print("| streams | stream | made at the end | sheds | most late | late at the end | dropped |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory(prefix="headend-bench-") as name:
        clip = make_clip(Path(name), 20)
        for streams in options.streams:
            for number, one in enumerate(_measure(clip.path, streams, options.seconds), 1):
                made = " ".join(rung for rung, on in one.made.items() if on) or "nothing"
                print(
                    f"| {streams} | {number} | {made} | {one.sheds} | {one.max_lag:.1f} s "
                    f"| {one.lag:.1f} s | {one.dropped} |",
                    flush=True,
                )
                wrong += [f"{streams} streams, number {number}: {what}" for what in one.faults]
    print("\n" + ("\n".join(wrong) if wrong else "Every stream kept up, and nothing was dropped."))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
