"""The programs of the desktop that are watched: how each plays an address, and is told to seek.

Firefox and WebKitGTK show our own page; the others play a playlist. Recorders (yt-dlp, streamlink)
show nothing: ffmpeg decodes what they write, as it comes; ffmpeg also does so by itself.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bench.players.screen import PAGE_SIZE, SIZE

_HERE: Final = Path(__file__).parent
_RECORDERS: Final = _HERE / ".venv"

_WIDTH, _HEIGHT = SIZE
_GEOMETRY: Final = f"{_WIDTH}x{_HEIGHT}+0+0"
_GRAY: Final = (
    "videoconvert ! videoscale ! "
    f"video/x-raw,format=GRAY8,width={_WIDTH},height={_HEIGHT},pixel-aspect-ratio=1/1 ! "
)
_DECODED: Final = (
    "ffmpeg -v error -i - -an -fps_mode passthrough "
    f"-vf scale={_WIDTH}:{_HEIGHT},format=gray -f rawvideo -"
)
_MINI_BROWSER: Final = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"
# Nothing of Firefox' first start, and sound may play; no GPU is there.
_FIREFOX: Final = {
    "browser.aboutwelcome.enabled": "false",
    "browser.shell.checkDefaultBrowser": "false",
    "datareporting.policy.dataSubmissionEnabled": "false",
    "datareporting.policy.firstRunURL": '""',
    "media.autoplay.default": "0",
    "toolkit.telemetry.reportingpolicy.firstRun": "false",
}
# VLC refuses to run as root, as benchmarks in containers do.
_AS_NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Program(msgspec.Struct, frozen=True):
    """A program, the Debian packages that bring it, and its command for an address and a window.

    The window is the whole display's, by its number; the folder is for the program's own files.
    `writes_pictures`: it writes gray pictures to its standard output instead of showing them; they
    come at their time unless it is a `recorder`. `keys` make it seek 10 s forward: names of keys on
    the display, or what is written to a terminal or to its standard input (`typed`). `page`: it
    shows our own page.
    """

    name: str
    packages: str
    command: Callable[[str, int, Path], list[str]]
    writes_pictures: bool = False
    recorder: bool = False
    page: bool = False
    keys: tuple[str, ...] = ()
    typed: tuple[bytes, ...] = ()


def make_recorders() -> None:
    """Install the locked recorders, in an environment of their own."""
    make = [_HERE.parents[1] / "scripts" / "environment.sh", _RECORDERS, _HERE / "requirements.txt"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)


def _vlc(url: str, window: int, folder: Path) -> list[str]:
    del folder
    start = _AS_NOBODY if os.geteuid() == 0 else ()
    # A window of its own would be as large as the rendition, and larger than the display.
    drawing = ("--vout=xcb_x11", f"--drawable-xid={window}", "--avcodec-hw=none")
    options = ("--no-audio", *drawing, "--no-osd", "--play-and-exit")
    return [*start, "vlc", "-I", "rc", "--no-video-title-show", *options, url]


def _firefox(url: str, window: int, folder: Path) -> list[str]:
    del window
    profile = folder / "firefox"
    profile.mkdir(exist_ok=True)
    lines = (f'user_pref("{name}", {value});' for name, value in _FIREFOX.items())
    (profile / "user.js").write_text("\n".join(lines))
    return ["firefox-esr", "--kiosk", "--no-remote", "--profile", str(profile), url]


def _webkit(url: str, window: int, folder: Path) -> list[str]:
    del window, folder
    return [
        _MINI_BROWSER,
        "--geometry={}x{}".format(*PAGE_SIZE),
        "--full-screen",
        "--autoplay-policy=allow",
        url,
    ]


def _decoded(recorder: str) -> Callable[[str, int, Path], list[str]]:
    return lambda url, _window, _folder: ["sh", "-c", f"{recorder} | {_DECODED}", "sh", url]


def _gst_play(*options: str) -> Callable[[str, int, Path], list[str]]:
    # What it says comes between the pictures on its standard output, unless they have a way of
    # their own.
    sink = f"--videosink={_GRAY} fdsink fd=3 sync=true"
    played = ("gst-play-1.0", "-q", *options, "--audiosink=fakesink sync=true", sink)
    return lambda url, _window, _folder: [
        "sh", "-c", 'exec 3>&1 >/dev/null; exec "$@"', "sh", *played, url,
    ]  # fmt: skip


_GSTREAMER: Final = (
    "gstreamer1.0-plugins-base-apps gstreamer1.0-plugins-{base,good,bad,ugly} gstreamer1.0-libav"
)
# It goes 8 % of a video's length further each time, so 20 s take six for 9.6 s.
_RIGHT_IN_TERMINAL: Final = (b"\x1b[C",) * 6
PROGRAMS: Final = {
    "firefox": Program(
        "firefox-esr", "firefox-esr xdotool", _firefox, page=True, keys=("Right", "Right")
    ),
    "webkitgtk": Program(
        _MINI_BROWSER, "libwebkit2gtk-4.1-0 xdotool", _webkit, page=True, keys=("Right", "Right")
    ),
    "ffplay": Program(
        "ffplay",
        "ffmpeg xdotool",
        lambda url, _window, _folder: [
            "ffplay", "-hide_banner", "-nostats", "-loglevel", "warning", "-noborder", "-autoexit",
            "-x", str(_WIDTH), "-y", str(_HEIGHT), "-left", "0", "-top", "0", url,
        ],
        keys=("Right",),
    ),
    "ffmpeg": Program(
        "ffmpeg",
        "ffmpeg",
        lambda url, _window, _folder: ["sh", "-c", _DECODED.replace("-i -", '-i "$1"'), "sh", url],
        writes_pictures=True,
        recorder=True,
    ),
    "mpv": Program(
        "mpv",
        "mpv xdotool",
        lambda url, _window, _folder: [
            "mpv", "--no-config", "--msg-level=all=warn", "--vo=x11", "--ao=null", "--osc=no",
            "--osd-level=0", "--no-border", "--keepaspect-window=no", f"--geometry={_GEOMETRY}",
            url,
        ],
        keys=("Right", "Right"),
    ),
    "vlc": Program(
        "vlc", "vlc-bin vlc-plugin-base vlc-plugin-video-output", _vlc, typed=(b"seek 14\n",)
    ),
    "gstreamer-old": Program(
        "gst-play-1.0", _GSTREAMER, _gst_play(), writes_pictures=True, typed=_RIGHT_IN_TERMINAL
    ),
    "gstreamer": Program(
        "gst-play-1.0",
        _GSTREAMER,
        _gst_play("--use-playbin3"),
        writes_pictures=True,
        typed=_RIGHT_IN_TERMINAL,
    ),
    "yt-dlp": Program(
        "ffmpeg",
        "ffmpeg",
        _decoded(f'{_RECORDERS}/bin/yt-dlp -q --no-cache-dir -o - "$1"'),
        writes_pictures=True,
        recorder=True,
    ),
    "streamlink": Program(
        "ffmpeg",
        "ffmpeg",
        _decoded(f'{_RECORDERS}/bin/streamlink --quiet --stdout "$1" best'),
        writes_pictures=True,
        recorder=True,
    ),
}  # fmt: skip
