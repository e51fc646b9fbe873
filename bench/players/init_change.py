"""The command `python -m bench.players.init_change`: what players do at another init section.

Each player plays the films of `bench.players.film`, which nginx serves: with one init section, with
two that follow each other as they are, and with an EXT-X-DISCONTINUITY between them. The table
shows the results; nothing is required of players. The status is 2 if a tool is missing.
"""

import argparse
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.nginx import running_nginx
from bench.players.course import now_ms
from bench.players.film import CHANGES, FPS, PACKINGS, SEAMS, SECONDS, make_films
from bench.players.pages import OUR_PAGE
from bench.players.playing import NAMES, Players, play, ready_players, require, tell_errors
from bench.players.programs import PROGRAMS
from bench.players.verdict import SeenPicture
from bench.tools import ToolMissing
from tests.support.free_ports import free_port

HEADINGS: Final = (
    "| player | packing | change | pictures | longest hole | stop at a change | errors |\n"
    "|---|---|---|---|---|---|---|"
)
_TAIL_SECONDS: Final = 24.0  # beside the film's own length: the start of a browser, and stops
_AROUND_SECONDS: Final = 0.5  # of a change
_SITE: Final = """\
    types {{
        application/vnd.apple.mpegurl m3u8;
        video/mp4 mp4 m4s;
    }}
    server {{
        listen 127.0.0.1:{port};
        root {folder};
        add_header access-control-allow-origin *;
    }}
"""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """How a player got through a film.

    `pictures` is how many it showed, `hole` the longest time of the film (seconds) of which it
    showed none, and `stop` the longest stay (seconds) of a picture at a change of the init section,
    None if it showed nothing of what follows the first one.
    """

    pictures: int
    hole: float
    stop: float | None


def judge(shown: Sequence[SeenPicture], began: float) -> Passage:
    """Judge what was shown of a film whose first picture was drawn at `began` (ms)."""
    first_sight: dict[float, float] = {}  # by the time in the film, in seconds
    for each in shown:
        first_sight.setdefault((each.drawn - began) / 1000, each.at / 1000)
    times = sorted(first_sight)
    edges = [-1 / FPS, *times, float(SECONDS)]
    stops = [
        first_sight[after] - first_sight[before]
        for before, after in pairwise(times)
        for seam in SEAMS
        if before < seam + _AROUND_SECONDS and after > seam - _AROUND_SECONDS
    ]
    across = any(time >= SEAMS[0] for time in times)
    return Passage(
        pictures=len(times),
        hole=max(0.0, max(after - before for before, after in pairwise(edges)) - 1 / FPS),
        stop=max(stops) if stops and across else None,
    )


def _row(name: str, packing: str, change: str, passage: Passage, errors: int) -> str:
    recorder = name in PROGRAMS and PROGRAMS[name].recorder
    stop = "stopped" if passage.stop is None else f"{passage.stop:.1f} s"
    cells = [
        name, packing, change, f"{passage.pictures} of {SECONDS * FPS}", f"{passage.hole:.1f} s",
        "" if recorder else stop, str(errors),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


@contextmanager
def _site(folder: Path) -> Generator[str]:
    """Serve a folder for the length of the block."""
    port, own = free_port(), folder / "nginx"
    own.mkdir()
    with running_nginx(own, port, http=_SITE.format(port=port, folder=folder)):
        yield f"http://127.0.0.1:{port}"


def _print_table(players: Players, names: Sequence[str], films: Sequence[tuple[str, str]]) -> None:
    with ExitStack() as stack:
        began = round(now_ms())
        folder = players.folder / "films"
        folder.mkdir()
        made = make_films(folder, began)
        site = stack.enter_context(_site(folder))
        print(HEADINGS, flush=True)
        for name in names:
            for packing, change in films:
                playlist = f"{site}/{made[packing, change]}"
                target = (playlist, f"{players.pages[OUR_PAGE]}#{playlist}")
                seen = play(players, name, target, SECONDS + _TAIL_SECONDS, seek=False)
                tell_errors(name, f"{packing}, {change}", seen)
                passage = judge(seen.pictures, began)
                print(_row(name, packing, change, passage, len(seen.errors)), flush=True)


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.players.init_change")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--packings", nargs="+", choices=PACKINGS, default=list(PACKINGS))
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=list(CHANGES))
    options = parser.parse_args()
    films = [(packing, change) for packing in options.packings for change in options.changes]
    try:
        require(options.only)
        with TemporaryDirectory(prefix="headend-bench-") as name:
            folder = Path(name)
            folder.chmod(0o755)  # VLC runs as another user
            with ready_players(folder) as players:
                _print_table(players, options.only, films)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
