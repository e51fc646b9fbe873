"""The quality of a rendition by VMAF: every n-th picture, scaled to the source's size, against it.

The source is the clip as both contenders received it, after its own encoding. The model is the one
built into libvmaf (v0.6.1, for a 1080p screen). Scaling is bicubic.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

import imageio_ffmpeg

from bench.ladder.clips import RATE, SIZE

_MOST_SECONDS: Final = 1800  # three rungs of 20 s take about 10 s on an idle machine, of 300 s 150


def _pick(every: int) -> str:
    """Return the filters that keep every `every`-th picture.

    Counting frames keeps both in step, wherever their timestamps begin. Equal colour tags prevent
    ffmpeg from converting one of them: the samples are compared as they are.
    """
    return (
        f"select='not(mod(n\\,{every}))',settb=1/{RATE},setpts=N,"
        "setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709"
    )


def vmaf(source: Path, rungs: dict[str, Path], folder: Path, *, every: int = 5) -> dict[str, float]:
    """Return the mean VMAF of each rendition over every `every`-th picture; logs go to `folder`.

    Raises:
        subprocess.CalledProcessError: ffmpeg failed; the reason is on standard error.
    """
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostdin", "-hide_banner", "-v", "error"]
    command += ["-i", str(source)]
    branches = "".join(f"[source{place}]" for place in range(len(rungs)))
    graph = [f"[0:v]{_pick(every)},split={len(rungs)}{branches}"]
    ends: list[str] = []
    for place, (name, path) in enumerate(rungs.items()):
        command += ["-i", str(path)]
        log = f"log_fmt=json:log_path={folder / name}.json"
        graph.append(
            f"[{place + 1}:v]{_pick(every)},scale={SIZE[0]}:{SIZE[1]}:flags=bicubic[rung{place}];"
            f"[rung{place}][source{place}]libvmaf=n_threads=2:{log}[end{place}]"
        )
        ends += ["-map", f"[end{place}]"]
    command += ["-filter_complex", ";".join(graph), *ends, "-f", "null", "-"]
    subprocess.run(command, check=True, timeout=_MOST_SECONDS)
    return {
        name: float(_log(folder / f"{name}.json")["pooled_metrics"]["vmaf"]["mean"])
        for name in rungs
    }


def _log(path: Path) -> dict[str, dict[str, dict[str, float]]]:
    return json.loads(path.read_text())
