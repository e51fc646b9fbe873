"""Desktop players that decode a whole playlist, and what they made of it.

Each program writes its pictures in gray to a pipe, where their clocks are read (`clock_video`).
FFmpeg and mpv write as fast as they decode; VLC and GStreamer write each picture when it is shown,
so that a freeze is seen as the time in which nothing comes.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final

import imageio_ffmpeg
import msgspec

from bench.players.programs import PROGRAMS
from bench.players.screen import SIZE
from tests.support.e2e.clock_video import TWO_RUNGS, read_luma
from tests.support.e2e.publishers import tool
from tests.support.waiting import SCALE

_WIDTH, _HEIGHT = SIZE
_GRAY: Final = f"scale={_WIDTH}:{_HEIGHT},format=gray"
_SHAPE: Final = tuple(map(int, TWO_RUNGS.split("x")))
_NOBODY: Final = 65534
FREEZE_SECONDS: Final = 0.5
_AT_START: Final = 1.0  # seconds: players fill their buffers while they show the first pictures
_END_SECONDS: Final = 10.0
_PICTURES_PER_SECOND: Final = 30
_FAULT: Final = re.compile(
    r"error|fail|invalid|corrupt|missing|conceal|non-existing", re.IGNORECASE
)
# What is said of no picture: by VLC on a machine without a desktop, and by FFmpeg 9 of the end of a
# connection that it opens anew, and of the variant that it stops reading (also of its own HLS).
_OF_NO_PICTURE: Final = re.compile(
    r"dbus|pulse|interface|XDG_RUNTIME|vlcrc|dconf|HTTP response: End of file"
    r"|\[NULL @ \w+\] (Invalid NAL unit size|missing picture in access unit)",
    re.IGNORECASE,
)


class DesktopPlayer(msgspec.Struct, frozen=True):
    """A player: its command for an address and the folder of its own files.

    `paced`: it writes a picture when it shows it. `framed`: it writes pictures of any size, each
    after a line, to the named pipe `pictures` in the folder. `bordered`: it keeps the picture's
    shape, with borders above and below.
    """

    command: Callable[[str, Path], list[str]]
    paced: bool = False
    framed: bool = False
    bordered: bool = False


def _ffmpeg(program: str, time_base: str) -> Callable[[str, Path], list[str]]:
    return lambda url, _folder: [
        program, "-nostdin", "-v", "error", "-xerror", "-i", url, "-an",
        # Its own time base is one over the frame rate, too coarse around a slate.
        "-fps_mode", "passthrough", "-enc_time_base", time_base, "-vf", _GRAY,
        "-f", "rawvideo", "-",
    ]  # fmt: skip


def _mpv(url: str, folder: Path) -> list[str]:
    del folder
    return [
        tool("mpv"), "--no-config", "--msg-level=all=warn", "--no-audio", f"--vf=lavfi=[{_GRAY}]",
        "--o=/dev/stdout", "--of=rawvideo", "--ovc=rawvideo", url,
    ]  # fmt: skip


def _vlc(url: str, folder: Path) -> list[str]:
    # It refuses to run as root.
    nobody = f"setpriv --reuid={_NOBODY} --regid={_NOBODY} --clear-groups".split()
    # Pictures that a busy machine shows late are no fault of the stream.
    drawing = f"--vout=yuv --yuv-file={folder}/pictures --yuv-chroma=GREY --avcodec-hw=none".split()
    late = ("--no-drop-late-frames", "--no-skip-frames")
    start = nobody if os.geteuid() == 0 else []
    return [*start, tool("vlc"), "-I", "dummy", "--no-audio", "--play-and-exit", *drawing, *late,
            url]  # fmt: skip


def _gstreamer(name: str) -> Callable[[str, Path], list[str]]:
    return lambda url, folder: PROGRAMS[name].command(url, 0, folder)


PLAYERS: Final = {
    "FFmpeg 5.1": DesktopPlayer(_ffmpeg(tool("ffmpeg"), "-1")),
    "FFmpeg 9.0": DesktopPlayer(_ffmpeg(imageio_ffmpeg.get_ffmpeg_exe(), "demux")),
    "mpv": DesktopPlayer(_mpv),
    "VLC": DesktopPlayer(_vlc, paced=True, framed=True),
    "GStreamer, hlsdemux": DesktopPlayer(_gstreamer("gstreamer-old"), paced=True, bordered=True),
    "GStreamer, hlsdemux2": DesktopPlayer(_gstreamer("gstreamer"), paced=True, bordered=True),
}


class PlayerRun:
    """A player while it plays: the clocks of its pictures, and when each came (seconds)."""

    def __init__(
        self,
        player: DesktopPlayer,
        process: subprocess.Popen[bytes],
        log: Path,
        pipe: IO[bytes],
        kept: int | None,
    ) -> None:
        self.paced = player.paced
        self.process = process
        self.shown: list[tuple[float, int | None]] = []
        self.errors: list[str] = []  # what it said of errors, once it is closed
        self._player, self._log, self._pipe, self._kept = player, log, pipe, kept
        self._reader = threading.Thread(target=self._read, name="pictures", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        width, height = SIZE
        while True:
            if self._player.framed:
                line = self._pipe.readline()
                if not line:
                    return
                if line != b"FRAME\n":
                    width, height = (int(line.split()[each][1:]) for each in (1, 2))
                    continue
            data = self._pipe.read(width * height)
            if len(data) < width * height:
                return
            at, lines = time.monotonic(), height
            if self._player.bordered:
                lines = width * _SHAPE[1] // _SHAPE[0]
                data = data[(height - lines) // 2 * width :]
            self.shown.append((at, read_luma(data, width, width, lines)[0]))

    def _faults(self) -> list[str]:
        lines = self._log.read_text(errors="replace").splitlines()
        return [line for line in lines if _FAULT.search(line) and not _OF_NO_PICTURE.search(line)]

    def finish(self, within: float) -> bool:
        """Wait until the player has ended by itself; return whether it did in time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within * SCALE)
        ended = self.process.poll() is not None
        self.close()
        return ended

    def close(self) -> None:
        """End the player, if it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None
        self._reader.join(_END_SECONDS)
        self._pipe.close()
        self.errors = self._faults()


@contextmanager
def playing(name: str, url: str) -> Generator[PlayerRun]:
    """Let a player play an address for the length of the block."""
    player = PLAYERS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="headend-player-")))
        folder.chmod(0o755)  # VLC runs as another user
        log, fifo = folder / "log", folder / "pictures"
        home = {"HOME": str(folder)}
        environment = {**os.environ, **home, "GST_DEBUG": "1", "GST_DEBUG_NO_COLOR": "1"}
        errors = stack.enter_context(log.open("wb"))
        if player.framed:
            os.mkfifo(fifo)
            if os.geteuid() == 0:
                os.chown(fifo, _NOBODY, _NOBODY)
        process = subprocess.Popen(
            player.command(url, folder), stdin=subprocess.DEVNULL,
            stdout=errors if player.framed else subprocess.PIPE, stderr=errors,
            env=environment, process_group=0,
        )  # fmt: skip
        if player.framed:
            # Open for writing until the end, too: VLC closes the pipe and opens it again.
            kept = os.open(fifo, os.O_RDWR)
            pipe = fifo.open("rb")
        else:
            kept, pipe = None, process.stdout
        assert pipe is not None
        run = PlayerRun(player, process, log, pipe, kept)
        try:
            yield run
        finally:
            run.close()


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """How a player decoded a run, in pictures from the first one with a clock that it showed.

    `made` is how many there were, `decoded` how many of them it showed, and `hole` the longest
    time (seconds) of which it showed none; `repeated` were shown too often, or were not made;
    `smeared` cannot be read though the run's can. `freezes` are the waits (seconds) in which no
    picture came; None for players that do not show pictures at their time.
    """

    first: int | None
    made: int
    decoded: int
    hole: float
    repeated: int
    smeared: int
    freezes: list[float] | None

    @property
    def row(self) -> str:
        """What there is to say about it."""
        freezes = self.freezes
        if freezes is None:
            stood = ""
        elif freezes:
            stood = f", {len(freezes)} freezes, the longest {max(freezes):.1f} s"
        else:
            stood = ", no freeze"
        return (
            f"{self.decoded} of {self.made} pictures, longest hole {self.hole:.1f} s, "
            f"{self.repeated} too many, {self.smeared} smeared{stood}"
        )


def judge(made: Sequence[int | None], run: PlayerRun) -> Decoding:
    """Compare what a player showed with the clocks of what was made, in their order."""
    clocks = [clock for _, clock in run.shown if clock is not None]
    known = set(made)
    first = next((clock for clock in clocks if clock in known), None)
    due = list(made[made.index(first) :]) if first is not None else list(made)
    there, shown = Counter(due), Counter(clock for _, clock in run.shown)
    unread, slate = shown.pop(None, 0), there.pop(None, 0)
    hole = longest = 0
    for clock in due:
        hole = 0 if clock is None or clock in shown else hole + 1
        longest = max(longest, hole)
    return Decoding(
        first=first,
        made=sum(there.values()),
        decoded=sum((there & shown).values()),
        hole=longest / _PICTURES_PER_SECOND,
        repeated=sum((shown - there).values()),
        smeared=max(0, unread - slate),
        freezes=_freezes(run) if run.paced else None,
    )


def _freezes(run: PlayerRun) -> list[float]:
    times = [at for at, _ in run.shown]
    after = [at for at in times if at > times[0] + _AT_START]
    return [late - soon for soon, late in pairwise(after) if late - soon > FREEZE_SECONDS]
