"""The command `python -m bench.latency`: how old the picture is that a viewer sees.

An encoder burns the time of day into its pictures and publishes them; Chromium plays the stream,
and the page reads the time off every frame that it presents. Headend is watched in its own page,
nginx-rtmp's HLS in hls.js as it is, one after the other. The status is 1 if a target is missed,
and 2 if a tool is missing.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from playwright.sync_api import Browser

from bench.ingest.clip import make_clip
from bench.ingest.measure import Overloaded
from bench.ingest.processes import Child, child, cpu_ns
from bench.ingest.publishers import looping
from bench.latency.encoder import PROFILES, SIZES
from bench.latency.parts import PartReader, reading, stages
from bench.latency.report import HEADINGS, LatencyFigures, LatencyTarget, figures, missed, row
from bench.latency.servers import LiveServer, headend, nginx
from bench.latency.viewer import browser, watch
from bench.players.pages import player_pages
from bench.tools import ToolMissing, verdict

ROOT: Final = Path(__file__).parents[2]
_ACCEPTED_SECONDS: Final = 60.0
_ENDED_SECONDS: Final = 30.0
_CLIP_SECONDS: Final = 20
_LEAST_RATE: Final = 29.0  # pictures a second: with fewer, the machine is measured
_QUIET_SECONDS: Final = 60.0  # for load shedding to come to rest, if there are further streams


class WatchMode(msgspec.Struct, frozen=True):
    """One way to watch: the server, the page's address, a script that runs before the page's."""

    about: str
    server: str
    address: Callable[[LiveServer, str], str]
    before: str = ""


MODES: Final = {
    "low": WatchMode("Headend, its page", "headend", lambda at, _: at.watch),
    "normal": WatchMode(
        "Headend, its page, normal delay chosen",
        "headend",
        lambda at, _: at.watch,
        """try { localStorage.setItem("headend.player", '{"latency": "normal"}') } catch {}\n""",
    ),
    "hls.js": WatchMode(
        "Headend, hls.js as it is", "headend", lambda at, bare: f"{bare}#{at.playlist}"
    ),
    "hls.js-normal": WatchMode(
        "Headend, hls.js as it is, `?latency=normal`",
        "headend",
        lambda at, bare: f"{bare}#{at.playlist}?latency=normal",
    ),
    "nginx": WatchMode(
        "nginx-rtmp, hls.js as it is", "nginx", lambda at, bare: f"{bare}#{at.playlist}"
    ),
}
_DEFAULT: Final = ("low", "normal", "nginx")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, with pictures of which `height`; times in seconds."""

    height: int
    modes: list[str]
    profiles: list[str]
    seconds: float
    before: float
    settle: float
    streams: int
    stages: bool


def target(mode: str, profile: str, streams: int) -> LatencyTarget | None:
    """Return the target of a mode, None if it has none."""
    match mode:
        case "low" if streams > 1:
            return LatencyTarget(2.5)
        case "low" if profile == "fast":
            return LatencyTarget(2.0, 2.5, 0)
        case "low" if profile == "obs":
            return LatencyTarget(3.0)
        case "normal":
            return LatencyTarget(7.0)
        case _:
            return None


@contextmanager
def _encoder(url: str, profile: str, folder: Path, plan: Plan) -> Generator[Child]:
    command = [sys.executable, "-m", "bench.latency.encoder", url, "--profile", profile]
    command += ["--height", str(plan.height)]
    if plan.streams > 1:
        # A broadcaster's machine does not share its cores with the ladders of other streams. An
        # ordinary user may not raise a priority: `nice` reports that and runs the command anyway.
        command = ["nice", "-n", "-5", *command]
    with child(command, folder / f"encoder-{profile}.log", cwd=ROOT) as running:
        running.wait("accepted", _ACCEPTED_SECONDS)
        yield running


def _encoder_delay(encoder: Child) -> float:
    """Stop an encoder and return the median of its delay in seconds.

    Raises:
        Overloaded: it did not keep real time.
    """
    encoder.process.send_signal(signal.SIGTERM)
    summary = encoder.wait("ended", _ENDED_SECONDS)
    if summary["rate"] < _LEAST_RATE:
        raise Overloaded(f"the encoder sent {summary['rate']:.1f} pictures a second")
    return float(summary["delay"])


@contextmanager
def _server(name: str, folder: Path, streams: int) -> Generator[LiveServer]:
    folder.mkdir()
    with ExitStack() as stack:
        if name == "nginx":
            yield stack.enter_context(nginx(folder))
            return
        running = stack.enter_context(headend(folder, streams))
        if running.others:
            clip = make_clip(folder, _CLIP_SECONDS)
            for url in running.others:
                stack.enter_context(looping(clip.path, url))
            time.sleep(_QUIET_SECONDS)
        yield running


def _measure(
    plan: Plan, modes: Sequence[str], profile: str, at: LiveServer, pages: tuple[Browser, str]
) -> Generator[tuple[str, LatencyFigures, LatencyTarget | None]]:
    """Watch one server in each mode in turn; an encoder publishes anew for each of them."""
    chromium, bare = pages
    for mode in modes:
        with (
            TemporaryDirectory(prefix="headend-bench-") as folder,
            _encoder(at.publish, profile, Path(folder), plan) as encoder,
        ):
            time.sleep(plan.before)
            spent: list[int] = []
            address = MODES[mode].address(at, bare)
            with reading(at.playlist) if plan.stages else nullcontext() as reader:
                watched = watch(
                    chromium,
                    address,
                    plan.settle + plan.seconds,
                    lambda spent=spent: spent.append(cpu_ns(at.pid)),
                    MODES[mode].before,
                )
            cpu = (cpu_ns(at.pid) - spent[0]) / 1e9 / (plan.settle + plan.seconds)
            measured = figures(watched, plan.settle, cpu, _encoder_delay(encoder))
        if reader is not None:
            print(_stages(reader), file=sys.stderr, flush=True)
        yield (
            f"{MODES[mode].about}; encoder `{profile}`",
            measured,
            target(mode, profile, plan.streams),
        )


def _stages(reader: PartReader) -> str:
    medians = stages(reader.read, reader.clocks)
    if medians is None:
        return f"no parts were read: {reader.error}"
    return (
        f"{medians.parts} parts of {medians.duration:.2f} s; their newest picture was "
        f"{medians.listed:.3f} s old when listed (p95 {medians.late:.3f} s), "
        f"{medians.fetched:.3f} s when fetched"
    )


def measure(plan: Plan) -> Generator[tuple[str, LatencyFigures, LatencyTarget | None]]:
    """Yield each row's name, figures and target as it is measured."""
    with (
        TemporaryDirectory(prefix="headend-bench-") as name,
        browser() as chromium,
        player_pages() as pages,
    ):
        servers = list(dict.fromkeys(MODES[mode].server for mode in plan.modes))
        for profile in plan.profiles:
            for server in servers:
                modes = [mode for mode in plan.modes if MODES[mode].server == server]
                with _server(server, Path(name) / f"{server}-{profile}", plan.streams) as at:
                    yield from _measure(plan, modes, profile, at, (chromium, pages["hls"]))


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(_DEFAULT))
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=["fast", "obs"])
    parser.add_argument("--minutes", type=float, default=10.0, help="of each, measured: 10")
    parser.add_argument("--before", type=float, default=15.0, help="seconds published before: 15")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds not measured: 10")
    parser.add_argument("--streams", type=int, default=1, help="of Headend; one of them is watched")
    parser.add_argument(
        "--height", type=int, choices=SIZES, default=720, help="of the pictures: 720"
    )
    parser.add_argument(
        "--stages", action="store_true", help="also read the parts, and say how old they are"
    )
    options = parser.parse_args()
    plan = Plan(
        modes=options.modes,
        profiles=options.profiles,
        seconds=options.minutes * 60,
        before=options.before,
        settle=options.settle,
        streams=options.streams,
        height=options.height,
        stages=options.stages,
    )
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}; {plan.streams} stream(s), {plan.height}p30")
    print(f"at 2.5 Mbit/s, {plan.seconds:g} s for each row\n\n{HEADINGS}", flush=True)
    results: list[tuple[str, LatencyFigures, LatencyTarget | None]] = []
    try:
        for name, measured, latency_target in measure(plan):
            results.append((name, measured, latency_target))
            print(row(name, measured, latency_target), flush=True)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    except Overloaded as error:
        print(f"{error}: this machine is too busy to measure", file=sys.stderr)
        return 1
    return verdict(missed(results), "All targets are met.")


if __name__ == "__main__":
    sys.exit(main())
