"""The command `python -m bench.players`: what usual players make of our playlists.

Each player plays a live stream, with and without low latency, in which two encoders publish the
clock of `bench.latency`: the one on air is killed, later both, the slate is shown until they
return, and the owner ends the stream. Then it plays a video and is told to seek. Pages run in
Chromium, programs on a virtual display that is read. Nothing is required of them: the tables show
their results. The status is 2 if a tool is missing.
"""

import argparse
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urljoin

import msgspec
from playwright.sync_api import Browser

from bench.ingest.processes import child
from bench.latency.viewer import Presented, browser, watch
from bench.players.course import END_SECONDS, Encoders, events, now_ms
from bench.players.pages import PAGES, player_pages
from bench.players.programs import PROGRAMS, Program, make_recorders
from bench.players.screen import PAGE_SIZE, SIZE, Pictures, Screen, screen
from bench.players.verdict import (
    LIVE_HEADINGS,
    VIDEO_HEADINGS,
    SeenPicture,
    judge_live,
    judge_video,
    live_row,
    video_row,
)
from bench.service import BenchService, service
from bench.tools import ToolMissing, tool
from media.no_op import do_nothing

__all__ = ["main"]

ROOT: Final = Path(__file__).parents[2]
OUR_PAGE: Final = "page"
WHATS: Final = ("low", "normal", "video")
_ACCEPTED_SECONDS: Final = 60.0
_FILLED_SECONDS: Final = 8.0
_VIDEO_SECONDS: Final = 20.0
_SEEK_SECONDS: Final = 7.0  # after the program was started
_KEY_SECONDS: Final = 0.1  # GStreamer takes what it reads at once for one key
_MADE_SECONDS: Final = 180.0
# How long a player is watched after the end: what it has in store, and then it must know.
_TAIL_SECONDS: Final = {"low": 12.0, "normal": 22.0}
_FAULT: Final = re.compile(r"error|fail|invalid|warning|unexpected|discont", re.IGNORECASE)
_SHED: Final = "headend_run_rungs_shed_total"
# Seeks a page's video 4 s after its first picture.
_SEEK: Final = """
const seeking = setInterval(() => {
  const video = window.headend?.video ?? document.querySelector("video");
  const { started } = window.latencyProbe;
  if (!video || started === null || Date.now() - started < 4000) return;
  clearInterval(seeking);
  window.latencyProbe.sought = Date.now();
  video.currentTime += 10;
}, 50);
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a player showed, and when: `sought` is when it was told to seek, `ended` by itself."""

    opened: float
    pictures: Sequence[SeenPicture]
    sought: float
    ended: float | None
    errors: list[str]


class Video(msgspec.Struct, frozen=True):
    """The addresses of a video's playlist and page, and its length in seconds."""

    playlist: str
    page: str
    seconds: float


class PlayerSession(msgspec.Struct, frozen=True, kw_only=True):
    """What players are tried with: a service, a browser, and pages."""

    running: BenchService
    chromium: Browser
    pages: dict[str, str]
    folder: Path


def _in_chromium(session: PlayerSession, address: str, seconds: float, *, seek: bool) -> Seen:
    opened = now_ms()
    try:
        watched = watch(session.chromium, address, seconds, do_nothing, _SEEK if seek else "")
    except TimeoutError as error:
        watched = Presented(frames=[], stalls=[], longest=0, unread=0, errors=[str(error)])
    return Seen(
        opened=opened,
        pictures=[SeenPicture(frame.at, frame.at - frame.latency) for frame in watched.frames],
        sought=watched.sought or now_ms(),
        ended=watched.ended,
        errors=watched.errors,
    )


def _in_program(
    session: PlayerSession, program: Program, address: str, seconds: float, *, seek: bool
) -> Seen:
    path = session.folder / "player.log"
    # A display of its own: the last picture of a program stays after its end.
    size = PAGE_SIZE if program.page else SIZE
    with screen(size) as display, path.open("wb") as log, _terminal() as (typing, reading):
        opened = now_ms()
        process = subprocess.Popen(
            program.command(address, display.window, session.folder),
            stdin=reading,
            stdout=subprocess.PIPE if program.writes_pictures else log,
            stderr=log, env=_environment(session, display), process_group=0,
        )  # fmt: skip
        pictures = display if process.stdout is None else Pictures(process.stdout)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SEEK_SECONDS if seek else seconds)
        sought = now_ms()
        if seek:
            _tell_to_seek(program, typing, _environment(session, display))
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds - _SEEK_SECONDS)
        ended = now_ms() if process.poll() is not None else None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if pictures is not display:
            pictures.close()
    lines = path.read_text(errors="replace").splitlines()
    errors = [line for line in lines if _FAULT.search(line)]
    return Seen(opened=opened, pictures=pictures.shown, sought=sought, ended=ended, errors=errors)


def _environment(session: PlayerSession, display: Screen) -> dict[str, str]:
    own = {"SDL_AUDIODRIVER": "dummy", "HOME": str(session.folder)}
    return {**os.environ, "DISPLAY": display.display, **own}


@contextmanager
def _terminal() -> Generator[tuple[int, int]]:
    """Open a terminal; yield the end that is typed into, and the program's."""
    typing, reading = pty.openpty()
    try:
        yield typing, reading
    finally:
        os.close(typing)
        os.close(reading)


def _tell_to_seek(program: Program, typing: int, environment: dict[str, str]) -> None:
    for each in program.typed:
        os.write(typing, each)
        time.sleep(_KEY_SECONDS)
    if program.keys:
        command = [tool("xdotool", "xdotool"), "mousemove", "320", "180", "key", *program.keys]
        subprocess.run(command, env=environment, check=True, timeout=10)


def _play(
    session: PlayerSession, name: str, target: tuple[str, str], seconds: float, *, seek: bool
) -> Seen:
    """Play the playlist or the page of `target` with a player, as it plays."""
    playlist, page = target
    if name == OUR_PAGE:
        return _in_chromium(session, page, seconds, seek=seek)
    if name in PAGES:
        return _in_chromium(session, f"{session.pages[name]}#{playlist}", seconds, seek=seek)
    program = PROGRAMS[name]
    address = page if program.page else playlist
    return _in_program(session, program, address, seconds, seek=seek)


def _live(session: PlayerSession, name: str, what: str) -> str:
    """Let a player play a live stream, and return its row."""
    running = session.running
    title = {"title": f"{name}, {what}"}
    stream = running.send("POST", "/api/projects/1/streams", title)["stream"]
    operations = f"/api/streams/{stream['id']}"
    running.send("PUT", f"{operations}/settings", {"latency": what})
    playlist = f"{running.http}/live/{stream['hash']}/index.m3u8"
    key = stream["stream"]
    urls = (f"{running.rtmp}/{key}", f"{running.rtmp}-backup-1/{key}")
    with ExitStack() as stack:
        encoders = Encoders(stack, session.folder, urls)
        time.sleep(_FILLED_SECONDS)
        end = stack.enter_context(
            events(encoders, lambda: running.send("POST", f"{operations}/end"))
        )
        target = (playlist, f"{running.http}/embed/{stream['hash']}")
        seen = _play(session, name, target, END_SECONDS + _TAIL_SECONDS[what], seek=False)
        shed = int(running.metrics().get((_SHED, stream["hash"], ""), 0))
        end.close()
    _tell(name, what, seen)
    course = end.course(seen.ended if seen.ended and seen.ended > end.end else None)
    return live_row(name, what, judge_live(seen.pictures, course), len(seen.errors), shed)


def _video(session: PlayerSession, name: str, video: Video) -> str:
    """Let a player play a video, and return its row."""
    target = (video.playlist, video.page)
    seen = _play(session, name, target, video.seconds + 8, seek=True)
    _tell(name, "video", seen)
    playing = judge_video(seen.pictures, seen.opened, seen.sought, video.seconds)
    seeks = name not in PROGRAMS or not PROGRAMS[name].recorder
    return video_row(name, playing, len(seen.errors), seeks=seeks)


def _tell(name: str, what: str, seen: Seen) -> None:
    """Write the first errors beside the table, which goes to another file."""
    for each in list(dict.fromkeys(each[:400] for each in seen.errors))[:5]:
        print(f"{name}, {what}: {each}", file=sys.stderr, flush=True)


def _upload(running: BenchService, folder: Path) -> Video:
    """Make a video of the clock, upload it, and return it when it is complete."""
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
    video = msgspec.json.decode(process.stdout)["video"]
    silent = {"name": "Plays at once", "autoplay": True, "muted": True}
    player = running.send("POST", "/api/projects/1/players", silent)["player"]
    running.send("PUT", f"/api/videos/{video['id']}/player", {"player": player["id"]})
    until = time.monotonic() + _MADE_SECONDS
    while time.monotonic() < until:
        status = running.send("GET", f"/api/videos/{video['id']}/status")
        if status["data"]["state"] == "completed":
            playlist = f"{running.http}/videos/{video['hash']}/index.m3u8"
            page = f"{running.http}/embed/{video['hash']}"
            return Video(playlist, page, _length(playlist))
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
def _session() -> Generator[PlayerSession]:
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # VLC runs as another user
        yield PlayerSession(
            running=stack.enter_context(service(folder, {"HEADEND_FAILOVER__MODE": "sticky"})),
            chromium=stack.enter_context(browser()),
            pages=stack.enter_context(player_pages()),
            folder=folder,
        )


def _print_tables(session: PlayerSession, names: list[str], whats: list[str]) -> None:
    live = [what for what in whats if what != "video"]
    if live:
        print(LIVE_HEADINGS, flush=True)
    for name in names:
        for what in live:
            print(_live(session, name, what), flush=True)
    if "video" in whats:
        video = _upload(session.running, session.folder)
        print(f"\nA video of {video.seconds:.1f} s:\n\n{VIDEO_HEADINGS}", flush=True)
        for name in names:
            print(_video(session, name, video), flush=True)


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.players", description=__doc__)
    names = [OUR_PAGE, *PAGES, *PROGRAMS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--whats", nargs="+", choices=WHATS, default=list(WHATS))
    options = parser.parse_args()
    try:
        for name in options.only:
            if name in PROGRAMS:
                tool(PROGRAMS[name].name, PROGRAMS[name].packages)
        if any(name in PROGRAMS and PROGRAMS[name].recorder for name in options.only):
            make_recorders()
        with _session() as session:
            _print_tables(session, options.only, options.whats)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
