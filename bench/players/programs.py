"""The programs of the desktop that are watched, and how each plays an address on a display."""

import os
from collections.abc import Callable
from typing import Final

import msgspec

from bench.players.screen import SIZE

__all__ = ["PROGRAMS", "Program"]

_WIDTH, _HEIGHT = SIZE
_GEOMETRY: Final = f"{_WIDTH}x{_HEIGHT}+0+0"
_SINK: Final = (
    "videoconvert ! videoscale ! "
    f"video/x-raw,format=GRAY8,width={_WIDTH},height={_HEIGHT},pixel-aspect-ratio=1/1 ! "
    "fdsink sync=true"
)
# VLC refuses to run as root, as benchmarks in containers do.
_AS_NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


class Program(msgspec.Struct, frozen=True):
    """A program, the Debian packages that bring it, and its command for an address and a window.

    The window is the whole display's, by its number.
    `writes_pictures`: it writes gray pictures to its standard output instead of showing them.
    """

    name: str
    packages: str
    command: Callable[[str, int], list[str]]
    writes_pictures: bool = False


def _vlc(url: str, window: int) -> list[str]:
    start = _AS_NOBODY if os.geteuid() == 0 else ()
    # A window of its own would be as large as the rendition, and larger than the display.
    drawing = ("--vout=xcb_x11", f"--drawable-xid={window}", "--avcodec-hw=none")
    options = ("--no-audio", *drawing, "--no-osd")
    return [*start, "vlc", "-I", "dummy", "--no-video-title-show", *options, url]


PROGRAMS: Final = {
    "ffplay": Program(
        "ffplay",
        "ffmpeg",
        lambda url, _: [
            "ffplay", "-hide_banner", "-nostats", "-loglevel", "warning", "-noborder",
            "-x", str(_WIDTH), "-y", str(_HEIGHT), "-left", "0", "-top", "0", url,
        ],
    ),
    "mpv": Program(
        "mpv",
        "mpv",
        lambda url, _: [
            "mpv", "--no-config", "--msg-level=all=warn", "--vo=x11", "--ao=null", "--osc=no",
            "--no-border", "--keepaspect-window=no", f"--geometry={_GEOMETRY}", url,
        ],
    ),
    "vlc": Program("vlc", "vlc-bin vlc-plugin-base vlc-plugin-video-output", _vlc),
    "gstreamer": Program(
        "gst-launch-1.0",
        "gstreamer1.0-tools gstreamer1.0-plugins-{base,good,bad,ugly} gstreamer1.0-libav",
        lambda url, _: [
            "gst-launch-1.0", "-q", "playbin3", f"uri={url}", f"video-sink={_SINK}",
            "audio-sink=fakesink sync=true",
        ],
        writes_pictures=True,
    ),
}  # fmt: skip
