"""One run of one contender: its segments on disk, its CPU time and its peak memory.

CPU is user and system time of the whole process tree, from `wait4`; the peak is the largest
resident set of the process that encodes. All write 1080p (the source's packets), 720p, 480p, 360p
and sound as fMP4 HLS.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

# name, width, height, kbit/s: the ladder of a 1080p source below its top
RUNGS: Final = (
    ("720p", 1280, 720, 2800),
    ("480p", 854, 480, 1400),
    ("360p", 640, 360, 800),
)
CONTENDERS: Final = ("ours", "ffmpeg", "equal")
# The modules to run as the engine: itself, and with the settings of ffmpeg's command.
_ENGINES: Final = {"ours": "transcode.engine", "equal": "bench.ladder.plain"}
_ROOT: Final = Path(__file__).parents[2]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one run: seconds of CPU, of these `feeding` in the engine's parent; MiB."""

    cpu: float
    feeding: float
    peak: float


def run(contender: str, clip: Path, folder: Path) -> Run:
    """Let one contender make the ladder of a clip in `folder`, which is emptied before.

    Raises:
        subprocess.CalledProcessError: it failed; the reason is on standard error.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if module := _ENGINES.get(contender):
        command = [sys.executable, "-m", "bench.ladder.feeder", str(clip), str(folder), module]
    else:
        command = ffmpeg_command(clip, folder)
    output, usage = finish(command)
    cpu, peak, engine = usage.ru_utime + usage.ru_stime, usage.ru_maxrss, None
    if contender in _ENGINES:
        engine = json.loads(output)
        peak = engine["peak_kib"]
    return Run(cpu=cpu, feeding=cpu - engine["cpu"] if engine else 0.0, peak=peak / 1024)


def finish(command: Sequence[str]) -> tuple[bytes, resource.struct_rusage]:
    """Run a command to its end; return its output, and what it and its descendants used.

    Raises:
        subprocess.CalledProcessError: it failed; the reason is on standard error.
    """
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as child:
        output = child.stdout.read() if child.stdout else b""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return output, usage


def in_turn(contenders: Sequence[str], number: int) -> Sequence[str]:
    """Return the order of a round: each begins with another one, so that none follows the same."""
    first = number % len(contenders)
    return (*contenders[first:], *contenders[:first])


def file_of(contender: str, rung: str, folder: Path) -> Path:
    """Return a run's rendition as one file: its init section and its segments."""
    names = [name for name, *_ in RUNGS]
    place = folder / (rung if contender == "ours" else str(names.index(rung) + 1))
    (init,) = place.glob("init*.mp4")
    segments = sorted(place.glob("*.m4s"), key=lambda path: int(path.stem))
    whole = folder / f"{rung}.mp4"
    whole.write_bytes(b"".join(path.read_bytes() for path in (init, *segments)))
    return whole


def ffmpeg_command(clip: Path, folder: Path) -> Sequence[str]:
    """Return the ffmpeg command: decode once, scale each from the source, encode, write HLS."""
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", "-i", str(clip)]
    command += ["-map", "0:v", "-c:v:0", "copy"]
    for place, (_, width, height, rate) in enumerate(RUNGS, 1):
        command += ["-map", "0:v", f"-c:v:{place}", "libx264"]
        command += [f"-filter:v:{place}", f"scale={width}:{height}"]
        command += [f"-b:v:{place}", f"{rate}k", f"-maxrate:v:{place}", f"{rate}k"]
        command += [f"-bufsize:v:{place}", f"{2 * rate}k"]
    command += ["-preset", "veryfast"]
    # A duplicate of the first frame, which ffmpeg makes by default, would shift the comparison.
    command += ["-vsync", "passthrough", "-sc_threshold", "0", "-g", "300"]
    command += ["-force_key_frames", "expr:gte(t,n_forced*2)"]
    command += ["-map", "0:a", "-c:a", "aac", "-b:a", "128k", "-ar", "48000", "-ac", "2"]
    command += ["-f", "hls", "-hls_time", "2", "-hls_playlist_type", "event"]
    command += ["-hls_segment_type", "fmp4", "-hls_fmp4_init_filename", "init.mp4"]
    command += ["-hls_segment_filename", f"{folder}/%v/%d.m4s", "-master_pl_name", "main.m3u8"]
    streams = " ".join(f"v:{place},agroup:a" for place in range(len(RUNGS) + 1))
    return [*command, "-var_stream_map", f"{streams} a:0,agroup:a", f"{folder}/%v/list.m3u8"]
