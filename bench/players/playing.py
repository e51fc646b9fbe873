"""Lets one player play an address, in Chromium or as a program, and tells what it showed."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from playwright.sync_api import Browser

from bench.latency.viewer import Presented, browser, watch
from bench.players.course import now_ms
from bench.players.pages import OUR_PAGE, PAGES, player_pages
from bench.players.programs import PROGRAMS, Program, make_recorders
from bench.players.screen import PAGE_SIZE, SIZE, Pictures, Screen, screen
from bench.players.verdict import SeenPicture
from bench.tools import tool
from media.no_op import do_nothing

NAMES: Final = (OUR_PAGE, *PAGES, *PROGRAMS)
_SEEK_SECONDS: Final = 7.0  # after the program was started
_KEY_SECONDS: Final = 0.1  # GStreamer takes what it reads at once for one key
_FAULT: Final = re.compile(r"error|fail|invalid|warning|unexpected|discont", re.IGNORECASE)
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


class Players(msgspec.Struct, frozen=True, kw_only=True):
    """What players need: a browser, the addresses of pages, and a folder for their files."""

    chromium: Browser
    pages: dict[str, str]
    folder: Path


@contextmanager
def ready_players(folder: Path) -> Generator[Players]:
    """Run a browser, and serve the pages of players, for the length of the block.

    Raises:
        ToolMissing: Chromium or Node is not installed.
    """
    with browser() as chromium, player_pages() as pages:
        yield Players(chromium=chromium, pages=pages, folder=folder)


def require(names: Sequence[str]) -> None:
    """Install the recorders among players.

    Raises:
        ToolMissing: the program of one of the players is not installed.
    """
    programs = [PROGRAMS[name] for name in names if name in PROGRAMS]
    for program in programs:
        tool(program.name, program.packages)
    if any(program.recorder for program in programs):
        make_recorders()


def play(
    players: Players, name: str, target: tuple[str, str], seconds: float, *, seek: bool
) -> Seen:
    """Play the playlist or the page of `target` with a player, as it plays."""
    playlist, page = target
    if name == OUR_PAGE:
        return _in_chromium(players, page, seconds, seek=seek)
    if name in PAGES:
        return _in_chromium(players, f"{players.pages[name]}#{playlist}", seconds, seek=seek)
    program = PROGRAMS[name]
    address = page if program.page else playlist
    return _in_program(players, program, address, seconds, seek=seek)


def _in_chromium(players: Players, address: str, seconds: float, *, seek: bool) -> Seen:
    opened = now_ms()
    try:
        watched = watch(players.chromium, address, seconds, do_nothing, _SEEK if seek else "")
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
    players: Players, program: Program, address: str, seconds: float, *, seek: bool
) -> Seen:
    path = players.folder / "player.log"
    # A display of its own: the last picture of a program stays after its end.
    size = PAGE_SIZE if program.page else SIZE
    with screen(size) as display, path.open("wb") as log, _terminal() as (typing, reading):
        opened = now_ms()
        process = subprocess.Popen(
            program.command(address, display.window, players.folder),
            stdin=reading,
            stdout=subprocess.PIPE if program.writes_pictures else log,
            stderr=log, env=_environment(players, display), process_group=0,
        )  # fmt: skip
        pictures = display if process.stdout is None else Pictures(process.stdout)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SEEK_SECONDS if seek else seconds)
        sought = now_ms()
        if seek:
            _tell_to_seek(program, typing, _environment(players, display))
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


def _environment(players: Players, display: Screen) -> dict[str, str]:
    own = {"SDL_AUDIODRIVER": "dummy", "HOME": str(players.folder)}
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


def tell_errors(name: str, what: str, seen: Seen) -> None:
    """Write the first errors beside the table, which goes to another file."""
    for each in list(dict.fromkeys(each[:400] for each in seen.errors))[:5]:
        print(f"{name}, {what}: {each}", file=sys.stderr, flush=True)
