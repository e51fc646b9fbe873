"""The contenders, each run once over a film: ours, ours at fixed rates, one ffmpeg command.

All make the same ladder: the film's own packets as the top, 720p, 480p, 360p, AAC. `fixed` is ours
with a live stream's rate control.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.ladder.clips import Clip, make
from bench.ladder.runs import ffmpeg_command, finish
from bench.ladder.runs import file_of as segments_of

CONTENDERS: Final = ("ours", "ffmpeg", "fixed")
_ENGINES: Final = {"ours": "transcode.engine", "fixed": "bench.vod.fixed"}
_CLIP_SECONDS: Final = 20
_MOST_SECONDS: Final = 3600


class VodRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: seconds of CPU and of the clock; `played` is when the video first played.

    `looks` are samples of the progress: seconds, percent, and the time left as reported.
    """

    cpu: float
    wall: float
    played: float = 0.0
    looks: tuple[tuple[float, int, int], ...] = ()


def film(clip: Clip, seconds: int, folder: Path) -> Path:
    """Return an MP4 of `seconds` that repeats the clip."""
    source = make(clip, min(seconds, _CLIP_SECONDS), folder)
    path = folder / f"{source.stem}-{seconds}.mp4"
    if not path.exists():
        unfinished = path.with_suffix(".part.mp4")
        command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-stream_loop", "-1"]
        command += ["-i", str(source), "-c", "copy", "-t", str(seconds), str(unfinished)]
        subprocess.run(command, check=True, timeout=_MOST_SECONDS)
        unfinished.rename(path)
    return path


def run(contender: str, path: Path, folder: Path, workers: int) -> VodRun:
    """Let one contender make the ladder of a film in `folder`, which is emptied before.

    Raises:
        subprocess.CalledProcessError: it failed; the reason is on standard error.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if module := _ENGINES.get(contender):
        command = [sys.executable, "-m", "bench.vod.ours", str(path), str(folder)]
        command += [str(workers), module]
    else:
        command = list(ffmpeg_command(path, folder))
    begun = time.monotonic()
    output, usage = finish(command)
    wall = time.monotonic() - begun
    cpu = usage.ru_utime + usage.ru_stime
    if contender not in _ENGINES:
        return VodRun(cpu=cpu, wall=wall)
    result = json.loads(output)
    looks = tuple((float(at), int(percent), int(eta)) for at, percent, eta in result["looks"])
    return VodRun(cpu=cpu, wall=result["completed"], played=result["played"] or 0.0, looks=looks)


def file_of(contender: str, rung: str, folder: Path) -> Path:
    """Return a run's rung as one file."""
    if contender in _ENGINES:
        return folder / f"{rung}.mp4"
    return segments_of(contender, rung, folder)
