"""The command `python -m bench.ladder`: all clips, alternating contenders, two tables, the targets.

The status is 0 if all targets are met, 1 if one is missed, 2 if a tool is missing.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import av
import imageio_ffmpeg

from bench.ladder.clips import Clip, add_options, chosen, make
from bench.ladder.quality import vmaf
from bench.ladder.runs import CONTENDERS, RUNGS, Run, file_of, in_turn, run
from bench.ladder.verdict import Result, missed, table
from bench.tools import verdict

_QUICK_SECONDS: Final = 8


def main() -> int:
    """Run the command line, and return the exit status."""
    options = _options()
    if shutil.which("ffmpeg") is None:
        print("ffmpeg is missing: apt-get install ffmpeg", file=sys.stderr)
        return 2
    print(_versions())
    folder: Path = options.folder
    clips = [(each, make(each, options.seconds, folder)) for each in chosen(options.clips)]
    results = [_result(clip, path, options.rounds, folder) for clip, path in clips]
    print(f"\n{options.seconds} s of 1080p30 each, least of {options.rounds} rounds in turn\n")
    print(table(results))
    return verdict(missed(results), "Every target is met.")


def _result(clip: Clip, path: Path, rounds: int, folder: Path) -> Result:
    runs: dict[str, list[Run]] = {name: [] for name in CONTENDERS}
    places = {name: folder / f"{clip.name}-{name}" for name in CONTENDERS}
    for number in range(rounds):
        for name in in_turn(CONTENDERS, number):
            result = run(name, path, places[name])
            runs[name].append(result)
            print(f"{clip.name}, round {number + 1}: {name} {result.cpu:.2f} s", flush=True)
    seconds = float(path.name.split("-")[1].removesuffix("s"))
    files = {
        name: {rung: file_of(name, rung, places[name]) for rung, *_ in RUNGS}
        for name in ("ours", "ffmpeg")
    }
    scores = {name: vmaf(path, files[name], places[name]) for name in files}
    rates = {
        name: {rung: file.stat().st_size * 8 / 1000 / seconds for rung, file in files[name].items()}
        for name in files
    }
    for place in places.values():
        shutil.rmtree(place)
    return Result(
        clip=clip.name,
        ours=runs["ours"],
        ffmpeg=runs["ffmpeg"],
        equal=runs["equal"],
        vmaf=(scores["ours"], scores["ffmpeg"]),
        rates=(rates["ours"], rates["ffmpeg"]),
    )


def _versions() -> str:
    process = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True)
    ffmpeg = process.stdout.split()[2]
    ours = ".".join(str(number) for number in av.library_versions["libavcodec"])
    judge = imageio_ffmpeg.__version__
    return (
        f"ours: PyAV {av.__version__} (libavcodec {ours}); ffmpeg {ffmpeg}; "
        f"VMAF by the ffmpeg of imageio-ffmpeg {judge}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ladder", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="how long each clip is")
    parser.add_argument("--rounds", type=int, default=3)
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help=f"1 round of {_QUICK_SECONDS} s")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = _QUICK_SECONDS, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
