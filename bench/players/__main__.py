"""The command `python -m bench.players`: what usual players make of our playlists.

Each player plays a live stream, with and without low latency, in which two encoders publish the
clock of `bench.latency`: the one on air is killed, later both, the slate is shown until they
return, and the owner ends the stream. Then it plays a video and is told to seek. Pages run in
Chromium, programs on a virtual display that is read. Nothing is required of them: the tables show
their results. The status is 2 if a tool is missing.
"""

import argparse
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urljoin

import msgspec

from bench.ingest.processes import child
from bench.players.course import END_SECONDS, Encoders, events
from bench.players.playing import NAMES, Players, play, ready_players, require, tell_errors
from bench.players.programs import PROGRAMS
from bench.players.verdict import (
    LIVE_HEADINGS,
    VIDEO_HEADINGS,
    judge_live,
    judge_video,
    live_row,
    video_row,
)
from bench.service import bench_service, metrics, send
from bench.tools import ToolMissing
from tests.support.e2e.service import ServiceProcess
from tests.support.e2e.uploaded_videos import completed, upload

ROOT: Final = Path(__file__).parents[2]
WHATS: Final = ("low", "normal", "video")
_ACCEPTED_SECONDS: Final = 60.0
_FILLED_SECONDS: Final = 8.0
_VIDEO_SECONDS: Final = 20.0
_MADE_SECONDS: Final = 180.0
# How long a player is watched after the end: what it has in store, and then it must know.
_TAIL_SECONDS: Final = {"low": 12.0, "normal": 22.0}
_SHED: Final = "headend_run_rungs_shed_total"


class Video(msgspec.Struct, frozen=True):
    """The addresses of a video's playlist and page, and its length in seconds."""

    playlist: str
    page: str
    seconds: float


def _live(running: ServiceProcess, players: Players, name: str, what: str) -> str:
    """Let a player play a live stream, and return its row."""
    stream = running.add_stream(f"{name}, {what}")
    operations = f"/api/streams/{stream['id']}"
    send(running, "PUT", f"{operations}/settings", {"latency": what})
    playlist = f"{running.http}/live/{stream['hash']}/index.m3u8"
    key = stream["stream"]
    urls = (f"{running.server}/{key}", f"{running.server}-backup-1/{key}")
    with ExitStack() as stack:
        encoders = Encoders(stack, players.folder, urls)
        time.sleep(_FILLED_SECONDS)
        end = stack.enter_context(
            events(encoders, lambda: send(running, "POST", f"{operations}/end"))
        )
        target = (playlist, f"{running.http}/embed/{stream['hash']}")
        seen = play(players, name, target, END_SECONDS + _TAIL_SECONDS[what], seek=False)
        shed = int(metrics(running).get((_SHED, str(stream["hash"]), ""), 0))
        end.close()
    tell_errors(name, what, seen)
    course = end.course(seen.ended if seen.ended and seen.ended > end.end else None)
    return live_row(name, what, judge_live(seen.pictures, course), len(seen.errors), shed)


def _video(players: Players, name: str, video: Video) -> str:
    """Let a player play a video, and return its row."""
    target = (video.playlist, video.page)
    seen = play(players, name, target, video.seconds + 8, seek=True)
    tell_errors(name, "video", seen)
    playing = judge_video(seen.pictures, seen.opened, seen.sought, video.seconds)
    seeks = name not in PROGRAMS or not PROGRAMS[name].recorder
    return video_row(name, playing, len(seen.errors), seeks=seeks)


def _upload(running: ServiceProcess, folder: Path) -> Video:
    """Make a video of the clock, upload it, and return it when it is complete."""
    file = folder / "clock.flv"
    command = [sys.executable, "-m", "bench.latency.encoder", str(file), "--profile", "obs"]
    with child(command, folder / "video.log", cwd=ROOT) as encoder:
        encoder.wait("accepted", _ACCEPTED_SECONDS)
        time.sleep(_VIDEO_SECONDS)
        encoder.process.send_signal(signal.SIGTERM)
        encoder.wait("ended", _ACCEPTED_SECONDS)
    video = upload(running, file)[1]["video"]
    silent = {"name": "Plays at once", "autoplay": True, "muted": True}
    player = send(running, "POST", "/api/projects/1/players", silent)["player"]
    send(running, "PUT", f"/api/videos/{video['id']}/player", {"player": player["id"]})
    completed(running, video["id"], within=_MADE_SECONDS)
    playlist = f"{running.http}/videos/{video['hash']}/index.m3u8"
    return Video(playlist, f"{running.http}/embed/{video['hash']}", _length(playlist))


def _length(playlist: str) -> float:
    """Return how long a video is, in seconds, by the first of its playlists."""
    with urllib.request.urlopen(playlist, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    rendition = urljoin(playlist, next(line for line in lines if line and line[0] != "#"))
    with urllib.request.urlopen(rendition, timeout=10) as answer:
        return sum(map(float, re.findall(r"#EXTINF:([0-9.]+)", answer.read().decode())))


@contextmanager
def _session() -> Generator[tuple[ServiceProcess, Players]]:
    with TemporaryDirectory(prefix="headend-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # VLC runs as another user
        running = stack.enter_context(bench_service(folder, {"HEADEND_FAILOVER__MODE": "sticky"}))
        yield running, stack.enter_context(ready_players(folder))


def _print_tables(
    running: ServiceProcess, players: Players, names: list[str], whats: list[str]
) -> None:
    live = [what for what in whats if what != "video"]
    if live:
        print(LIVE_HEADINGS, flush=True)
    for name in names:
        for what in live:
            print(_live(running, players, name, what), flush=True)
    if "video" in whats:
        video = _upload(running, players.folder)
        print(f"\nA video of {video.seconds:.1f} s:\n\n{VIDEO_HEADINGS}", flush=True)
        for name in names:
            print(_video(players, name, video), flush=True)


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.players", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--whats", nargs="+", choices=WHATS, default=list(WHATS))
    options = parser.parse_args()
    try:
        require(options.only)
        with _session() as (running, players):
            _print_tables(running, players, options.only, options.whats)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
