"""Three different clips as an encoder would send them, made once and kept in a folder.

Each is 1920x1080 at 30 frames a second: H.264 High at 6 Mbit/s with a keyframe every 2 s and
B-frames, and AAC, in FLV. All of it comes from ffmpeg's own sources with fixed seeds.
"""

import argparse
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

SIZE: Final = (1920, 1080)
RATE: Final = 30
_MAKE_SECONDS: Final = 300  # a clip takes 30 s on an idle machine with two cores


class Clip(msgspec.Struct, frozen=True):
    """One clip: `graph` is a filter graph that ends in [v], endless."""

    name: str
    what: str
    graph: str


# A camera pans over a textured field, players cross it; a little grain.
_SPORT: Final = (
    "mandelbrot=s=2880x1620:r=30:start_scale=0.02:start_x=-0.743643887:start_y=-0.131825904"
    ":maxiter=300,trim=end_frame=1,noise=alls=16:all_seed=7,gblur=sigma=0.7,"
    "loop=loop=-1:size=1:start=0,setpts=N/30/TB,format=yuv420p,"
    "crop=1920:1080:x='480+440*sin(t*0.9)':y='270+200*sin(t*0.7)'[field];"
    "testsrc2=s=90x200:r=30,split=3[p1][p2][p3];"
    "[field][p1]overlay=x='900+700*sin(t*1.1)':y='400+120*sin(t*2.3)'[f1];"
    "[f1][p2]overlay=x='700-500*sin(t*1.7)':y='520+100*sin(t*1.9)'[f2];"
    "[f2][p3]overlay=x='1100+300*cos(t*2.1)':y='300+90*cos(t*1.3)',"
    "noise=alls=4:allf=t:all_seed=11,setsar=1[v]"
)
# A static room, a head that moves a little, a mouth that moves a lot; camera noise.
_TALK: Final = (
    "mandelbrot=s=1920x1080:r=30:start_scale=1.2:maxiter=60,trim=end_frame=1,format=yuv420p,"
    "noise=alls=12:all_seed=3,gblur=sigma=5,loop=loop=-1:size=1:start=0,setpts=N/30/TB[room];"
    "mandelbrot=s=520x680:r=30:start_scale=0.6:maxiter=120,trim=end_frame=1,gblur=sigma=1,"
    "loop=loop=-1:size=1:start=0,setpts=N/30/TB,format=yuv420p[head];"
    "life=s=48x24:r=30:ratio=0.4:seed=9:mold=20:life_color=0xd08070:death_color=0x402020"
    ":mold_color=0x603030,scale=240:120:flags=bilinear,gblur=sigma=3,format=yuv420p[mouth];"
    "[room][head]overlay=x='700+26*sin(t*1.3)':y='240+12*sin(t*2.1)'[a];"
    "[a][mouth]overlay=x='840+26*sin(t*1.3)':y='680+12*sin(t*2.1)',"
    "noise=alls=5:allf=t:all_seed=13,setsar=1[v]"
)
# A screen: sharp edges, small shapes that scroll like text, a window that is dragged, and a cut
# every 4 s.
_SCREEN: Final = (
    "testsrc2=s=1920x1080:r=30,trim=duration=4,setpts=PTS-STARTPTS,format=yuv420p,setsar=1[s1];"
    "cellauto=s=320x180:r=15:rule=110:seed=4:scroll=1,fps=30,scale=1920:1080:flags=neighbor,"
    "trim=duration=4,setpts=PTS-STARTPTS,format=yuv420p,setsar=1[s2];"
    "life=s=240x135:r=30:ratio=0.3:seed=6:mold=15:life_color=0x40ff60:death_color=0x203050"
    ":mold_color=0x3060a0,scale=1920:1080:flags=neighbor,trim=duration=4,setpts=PTS-STARTPTS,"
    "format=yuv420p,setsar=1[s3];"
    "smptehdbars=s=1920x1080:r=30,format=yuv420p[bars];"
    "testsrc=s=720x480:r=30:decimals=2,format=yuv420p[window];"
    "[bars][window]overlay=x='600+500*sin(t*2)':y='300+200*cos(t*1.5)',trim=duration=4,"
    "setpts=PTS-STARTPTS,format=yuv420p,setsar=1[s4];"
    "yuvtestsrc=s=1920x1080:r=30,format=yuv420p[ramp];"
    "cellauto=s=160x90:r=10:rule=30:seed=8,fps=30,scale=960:540:flags=neighbor,format=yuv420p[t];"
    "[ramp][t]overlay=x='mod(120*t\\,960)':y=270,trim=duration=4,setpts=PTS-STARTPTS,"
    "format=yuv420p,setsar=1[s5];"
    "[s1][s2][s3][s4][s5]concat=n=5:v=1:a=0,loop=loop=-1:size=600:start=0,setpts=N/30/TB[v]"
)

CLIPS: Final = (
    Clip("sport", "pans over fine texture, things that cross it, grain", _SPORT),
    Clip("talk", "a still room, a head that moves a little, a camera's noise", _TALK),
    Clip("screen", "sharp edges, small shapes that scroll, a cut every 4 s", _SCREEN),
)
# Two tones that interfere, so that the audio encoder has work to do.
_SOUND: Final = "aevalsrc='0.3*sin(2*PI*(440+60*sin(t))*t)|0.3*sin(2*PI*660*t)':s=48000"
_CODING: Final = (
    *("-c:v", "libx264", "-preset", "veryfast", "-profile:v", "high", "-pix_fmt", "yuv420p"),
    *("-b:v", "6000k", "-maxrate", "6000k", "-bufsize", "6000k"),
    *("-g", "60", "-keyint_min", "60", "-sc_threshold", "0", "-bf", "2"),
    *("-c:a", "aac", "-b:a", "160k"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose among the clips, and where they are."""
    parser.add_argument("--clips", nargs="+", choices=[clip.name for clip in CLIPS])
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "headend-bench-ladder",
        help="where the clips are kept and the runs write",
    )


def chosen(names: Sequence[str] | None) -> list[Clip]:
    """Return the clips with these names; all for None."""
    return [clip for clip in CLIPS if names is None or clip.name in names]


def make(clip: Clip, seconds: int, folder: Path) -> Path:
    """Return the clip's file in `folder`, and make it if it does not exist.

    Raises:
        subprocess.CalledProcessError: ffmpeg failed; the reason is on standard error.
    """
    recipe = f"{clip.graph} {_SOUND} {_CODING} {seconds}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    path = folder / f"{clip.name}-{seconds}s-{digest}.flv"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y"]
    command += ["-filter_complex", f"{clip.graph};{_SOUND}[a]", "-map", "[v]", "-map", "[a]"]
    command += [*_CODING, "-t", str(seconds), "-f", "flv", str(unfinished)]
    subprocess.run(command, check=True, timeout=_MAKE_SECONDS)
    return unfinished.rename(path)
