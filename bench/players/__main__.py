"""The command `python -m bench.players`: what usual players make of our playlists.

Two encoders publish the clock of `bench.latency` to one stream. Each player plays it, with and
without low latency, and in the middle the encoder that is on air is killed; then it plays a video.
Browser players run in Chromium, programs on a virtual display that is read. Nothing is required of
them: the table shows their results. The status is 2 if a tool is missing.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urljoin

import msgspec
from playwright.sync_api import Browser

from bench.ingest.processes import child
from bench.latency.viewer import browser, watch
from bench.players.pages import PAGES, player_pages
from bench.players.programs import PROGRAMS, Program
from bench.players.screen import Pictures, Screen, screen
from bench.players.verdict import HEADINGS, Playing, SeenPicture, judge, last_new, row
from bench.service import BenchService, service
from bench.tools import ToolMissing, tool
from media.no_op import do_nothing

__all__ = ["main"]

ROOT: Final = Path(__file__).parents[2]
_ACCEPTED_SECONDS: Final = 60.0
_FILLED_SECONDS: Final = 12.0
_VIDEO_SECONDS: Final = 20.0
_SLOW_SECONDS: Final = 10.0  # what a player may take longer for a video than it lasts
_MADE_SECONDS: Final = 180.0
_FAULT: Final = re.compile(r"error|fail|invalid|warning|unexpected|discont", re.IGNORECASE)
_SHED: Final = "headend_run_rungs_shed_total"
WHATS: Final = ("low", "normal", "video")


class PrimaryAndBackup:
    """Two encoders of one stream, one of which is on air; the other takes over when it is lost."""

    def __init__(self, stack: ExitStack, folder: Path, urls: tuple[str, str]) -> None:
        self._stack, self._folder, self._urls = stack, folder, urls
        self._on_air = 0
        self._running = [self._start(0), self._start(1)]

    def _start(self, slot: int) -> ExitStack:
        command = [sys.executable, "-m", "bench.latency.encoder", self._urls[slot]]
        running = self._stack.enter_context(ExitStack())
        log = self._folder / f"encoder-{slot}.log"
        encoder = running.enter_context(child([*command, "--profile", "obs"], log, cwd=ROOT))
        encoder.wait("accepted", _ACCEPTED_SECONDS)
        return running

    def lose(self) -> None:
        """Kill the one on air."""
        self._running[self._on_air].close()

    def restore(self) -> None:
        """Start the lost one again; the other one stays on air."""
        self._running[self._on_air] = self._start(self._on_air)
        self._on_air = 1 - self._on_air


class PlayerSession(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a player: the URLs to play, and what disconnects the encoder."""

    addresses: dict[str, str]
    seconds: float
    encoders: PrimaryAndBackup
    chromium: Browser
    pages: dict[str, str]
    display: Screen
    folder: Path
    shed: Callable[[], int]

    def seconds_of(self, what: str) -> float:
        """Return for how long one of the addresses is played."""
        return _VIDEO_SECONDS + _SLOW_SECONDS if what == "video" else self.seconds


def _now() -> float:
    return time.time() * 1000


@contextmanager
def _losing(session: PlayerSession, what: str, after: float) -> Generator[Callable[[], float]]:
    """Disconnect the encoder within the block; yield a function that returns when.

    A video loses nothing, but the time is recorded as well.
    """
    times: list[float] = []

    def lose() -> None:
        times.append(_now())
        if what != "video":
            session.encoders.lose()

    timer = threading.Timer(after, lose)
    timer.start()
    try:
        yield lambda: times[0] if times else _now()
    finally:
        timer.join()
        if what != "video":
            session.encoders.restore()


def _in_chromium(session: PlayerSession, page: str, what: str) -> tuple[Playing, list[str]]:
    opened = _now()
    address = f"{session.pages[page]}#{session.addresses[what]}"
    seconds = session.seconds_of(what)
    with _losing(session, what, seconds / 2) as lost_at:
        try:
            watched = watch(session.chromium, address, seconds, do_nothing)
        except TimeoutError as error:
            return judge([], opened, lost_at(), _now()), [str(error)]
        pictures = [SeenPicture(frame.at, frame.at - frame.latency) for frame in watched.frames]
        return judge(pictures, opened, lost_at(), _ended(what, pictures)), watched.errors


def _ended(what: str, shown: Sequence[SeenPicture]) -> float:
    """Return when playing ended: a video by itself, with its last picture."""
    return (last_new(shown) if what == "video" else None) or _now()


def _in_program(session: PlayerSession, program: Program, what: str) -> tuple[Playing, list[str]]:
    path = session.folder / "player.log"
    environment = {
        **os.environ,
        "DISPLAY": session.display.display,
        "SDL_AUDIODRIVER": "dummy",
        "HOME": str(session.folder),
    }
    opened, seconds = _now(), session.seconds_of(what)
    with _losing(session, what, seconds / 2) as lost_at, path.open("wb") as log:
        process = subprocess.Popen(
            program.command(session.addresses[what], session.display.window),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program.writes_pictures else log,
            stderr=log, env=environment, process_group=0,
        )  # fmt: skip
        pictures = session.display if process.stdout is None else Pictures(process.stdout)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        shown = pictures.since(opened)
        playing = judge(shown, opened, lost_at(), _ended(what, shown))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if pictures is not session.display:
            pictures.close()
    lines = path.read_text(errors="replace").splitlines()
    return playing, [line for line in lines if _FAULT.search(line)]


def _upload(running: BenchService, folder: Path) -> str:
    """Make a video of the clock, upload it, and return its playlist when it is complete.

    Its length is printed.
    """
    file = folder / "clock.flv"
    command = [sys.executable, "-m", "bench.latency.encoder", str(file), "--profile", "obs"]
    with child(command, folder / "video.log", cwd=ROOT) as encoder:
        encoder.wait("accepted", _ACCEPTED_SECONDS)
        time.sleep(_VIDEO_SECONDS)
        encoder.process.send_signal(signal.SIGTERM)
        encoder.wait("ended", _ACCEPTED_SECONDS)
    owner = f"Authorization: Bearer {running.token}"
    curl = tool("curl", "curl")
    upload = [curl, "-sS", "-f", "-F", f"video=@{file}", "-H", owner]
    process = subprocess.run(
        [*upload, f"{running.http}/api/projects/1/videos"], capture_output=True, check=True
    )
    video = json.loads(process.stdout)["video"]
    status = urllib.request.Request(
        f"{running.http}/api/videos/{video['id']}/status",
        headers={"Authorization": f"Bearer {running.token}"},
    )
    until = time.monotonic() + _MADE_SECONDS
    while time.monotonic() < until:
        with urllib.request.urlopen(status, timeout=10) as answer:
            state = json.load(answer)["data"]["state"]
        if state == "completed":
            playlist = f"{running.http}/videos/{video['hash']}/index.m3u8"
            print(f"The video lasts {_length(playlist):.1f} s.", flush=True)
            return playlist
        time.sleep(0.5)
    raise TimeoutError("the video was not completed")


def _length(playlist: str) -> float:
    """Return how long a video is, in seconds, by the first of its playlists."""
    with urllib.request.urlopen(playlist, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    rendition = urljoin(playlist, next(line for line in lines if line and line[0] != "#"))
    with urllib.request.urlopen(rendition, timeout=10) as answer:
        return sum(map(float, re.findall(r"#EXTINF:([0-9.]+)", answer.read().decode())))


@contextmanager
def _session(seconds: float, whats: list[str]) -> Generator[PlayerSession]:
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # VLC runs as another user
        pages = stack.enter_context(player_pages())
        chromium = stack.enter_context(browser())
        display = stack.enter_context(screen())
        settings = {"HEADEND_FAILOVER__MODE": "sticky"}
        running = stack.enter_context(service(folder, settings))
        hash_, key = running.add_stream("Players")
        playlist = f"{running.http}/live/{hash_}/index.m3u8"
        addresses = {"low": playlist, "normal": f"{playlist}?latency=normal"}
        if "video" in whats:
            addresses["video"] = _upload(running, folder)
        urls = (f"{running.rtmp}/{key}", f"{running.rtmp}-backup-1/{key}")
        encoders = PrimaryAndBackup(stack, folder, urls)
        time.sleep(_FILLED_SECONDS)
        yield PlayerSession(
            addresses=addresses,
            seconds=seconds,
            encoders=encoders,
            chromium=chromium,
            pages=pages,
            display=display,
            folder=folder,
            shed=lambda: int(running.metrics().get((_SHED, hash_, ""), 0)),
        )


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.players", description=__doc__)
    names = [*PAGES, *PROGRAMS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--whats", nargs="+", choices=WHATS, default=list(WHATS))
    parser.add_argument("--seconds", type=float, default=40.0, help="of each: 40")
    options = parser.parse_args()
    try:
        for name in options.only:
            if name in PROGRAMS:
                tool(PROGRAMS[name].name, PROGRAMS[name].packages)
        with _session(options.seconds, options.whats) as session:
            print(HEADINGS, flush=True)
            for name in options.only:
                for what in options.whats:
                    before = session.shed()
                    if name in PAGES:
                        playing, errors = _in_chromium(session, name, what)
                    else:
                        playing, errors = _in_program(session, PROGRAMS[name], what)
                    shed = session.shed() - before
                    print(row(name, what, playing, len(errors), shed), flush=True)
                    # Beside the table, which goes to another file.
                    for each in list(dict.fromkeys(each[:400] for each in errors))[:5]:
                        print(f"{name}, {what}: {each}", file=sys.stderr, flush=True)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
