"""Foreign encoders, and the source that they send."""

import shutil
import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.e2e.service import SCALE
from tests.support.in_thread import in_thread
from tests.support.made_media import make_file

INSTALL = {
    "ffmpeg": "apt-get install ffmpeg",
    "gst-launch-1.0": "apt-get install gstreamer1.0-tools gstreamer1.0-plugins-{good,bad,ugly}",
}


def tool(name: str) -> str:
    """Return a program's path, or fail the test with the command that installs it."""
    path = shutil.which(name)
    assert path is not None, f"{name} is missing: {INSTALL[name]}"
    return path


def make_source(
    path: Path,
    *,
    seconds: int = 10,
    size: str = "1280x720",
    fps: int = 30,
    keyframes: str = "expr:gte(t,n_forced*2)",
) -> Path:
    """Encode an FLV as OBS sends it: x264 with B-frames and scene cuts, 44.1 kHz stereo AAC.

    Three different pictures alternate every 1.7 s, so that scene cuts fall between the keyframes
    every 2 s; the sound is a tone that beeps every second.
    """
    graph = (
        # The second picture is expensive to generate, so it is generated small.
        f"testsrc2=s={size}:r={fps}[a];mandelbrot=s=320x180:r={fps},scale={size}[b];"
        f"life=s={size}:r={fps}:mold=10:ratio=0.1:death_color=#C83232:life_color=#00ff00[c];"
        "[a][b][c]streamselect@pick=inputs=3:map=0[v]"
    )
    commands = ";".join(
        f"{1.7 * turn:.1f} streamselect@pick map {turn % 3}" for turn in range(1, seconds)
    )
    graph = graph.replace("[a][b][c]", f"[a]sendcmd=c='{commands}'[a0];[a0][b][c]")
    make_file(
        [
            tool("ffmpeg"), "-v", "error", "-y",
            "-f", "lavfi", "-i", f"sine=frequency=440:beep_factor=4:sample_rate=44100:d={seconds}",
            "-filter_complex", graph, "-map", "[v]", "-map", "0:a", "-t", str(seconds),
            "-c:v", "libx264", "-preset", "veryfast", "-b:v", "3M", "-maxrate", "3M",
            "-bufsize", "3M", "-bf", "2", "-g", "600", "-force_key_frames", keyframes,
            "-pix_fmt", "yuv420p", "-profile:v", "high",
            "-c:a", "aac", "-b:a", "160k", "-ac", "2", "-ar", "44100",
        ],
        path,
        seconds=600,
    )  # fmt: skip
    return path


def ffmpeg(source: Path, url: str, *options: str) -> list[str]:
    """Return an ffmpeg command that sends a file in real time."""
    return [
        tool("ffmpeg"), "-v", "error", "-re", *options, "-i", str(source), "-c", "copy",
        "-f", "flv", url,
    ]  # fmt: skip


def gstreamer(source: Path, sink: str) -> list[str]:
    """Return a GStreamer command that sends a file; `sink` is the sending element.

    An interrupt ends the stream (`-e`): rtmp2sink says goodbye at the end of a stream only.
    """
    return [
        tool("gst-launch-1.0"), "-q", "-e",
        "filesrc", f"location={source}", "!", "flvdemux", "name=d",
        "d.video", "!", "queue", "!", "h264parse", "!", "mux.",
        "d.audio", "!", "queue", "!", "aacparse", "!", "mux.",
        "flvmux", "name=mux", "streamable=true", "!", "identity", "sync=true", "!",
        *sink.split(),
    ]  # fmt: skip


@contextmanager
def persisting(command: list[str]) -> Generator[None]:
    """Run an encoder for the length of the block, and restart it as OBS reconnects."""
    over = threading.Event()

    def insist() -> None:
        while not over.is_set():
            with publishing(command) as encoder:
                while encoder.poll() is None and not over.wait(0.1):
                    pass
            over.wait(0.3)

    with in_thread(insist, over.set):
        yield


@contextmanager
def publishing(command: list[str]) -> Generator[subprocess.Popen[bytes]]:
    """Run an encoder for the length of the block, and stop it as its user would."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=10 * SCALE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
