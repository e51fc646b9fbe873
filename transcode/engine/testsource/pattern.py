"""A test encoder: publishes a test picture and tone to an RTMP or RTMPS address.

    echo '{"url": "rtmp://...", "seconds": 10, "size": [1280, 720], "fps": 30}' |
        python -m transcode.engine.testsource.pattern

The order comes on standard input because its address holds a secret, which must not appear in
arguments, logs or errors. It runs until its seconds are over, its standard input is closed, or
SIGTERM arrives. The exit status is 0, or 1 with one line on standard error.

There are two processes: one publishes, the other watches it. FFmpeg is opened without a deadline
and keeps the interpreter lock while it waits for a server (PyAV 18.1), so a thread could not watch.

RTMPS is encrypted, but the server's certificate is not checked: FFmpeg checks none without
`tls_verify`, and PyAV opens outputs without passing options on. Use an encoder that checks it if
the network path to the server is not trusted.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import Any, Final
from urllib.parse import urlsplit

import av
import msgspec
from av import logging as av_logging
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from media.ticks import AUDIO_SCALE
from transcode.engine.testsource.testcard import TestCard, Tone
from transcode.sandbox.rlimits import die_with_parent

_GOP_SECONDS: Final = 2
_AUDIO_FRAME: Final = 1024
_AUDIO_RATE: Final = 128_000
# A server that accepts nothing for this long is lost; OBS gives up after about as long.
_SILENCE: Final = 10.0  # seconds
_STOP: Final = 3.0  # seconds that a publisher has to end its session
# If it is later than this, frames are left out: a slow machine must not show an old clock.
_LATE: Final = 1  # seconds
_MAX_ORDER: Final = 65_536


class PatternOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to publish: `seconds` None means until stopped, `size` is in even pixels."""

    url: str
    seconds: float | None = None
    size: tuple[int, int] = (1280, 720)
    fps: int = 30

    def __post_init__(self) -> None:
        if not all(64 <= side <= 4096 and side % 2 == 0 for side in self.size):
            raise ValueError("a size is two even numbers from 64 to 4096")
        if not 1 <= self.fps <= 120:
            raise ValueError("fps is from 1 to 120")

    def __repr__(self) -> str:
        return f"Order(url=..., seconds={self.seconds}, size={self.size}, fps={self.fps})"


def main() -> int:
    """Publish according to the order on standard input; return the exit status."""
    try:
        order = msgspec.json.decode(_first_line(0), type=PatternOrder)
    except msgspec.MsgspecError as error:
        return _fail(f"no order: {error}")
    watcher = os.getpid()
    beat_reader, beat_writer = os.pipe()
    stop_reader, stop_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(beat_reader)
        os.close(stop_writer)
        os._exit(_publisher(order, watcher, beat_writer, stop_reader))
    os.close(beat_writer)
    os.close(stop_reader)
    return _watch(child, beat_reader, stop_writer)


def _first_line(source: int) -> bytes:
    """Read up to the end of a line, and no byte more: the watcher reads what follows."""
    line = bytearray()
    while len(line) < _MAX_ORDER and (byte := os.read(source, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _fail(text: str) -> int:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
    return 1


# The watching process.


def _watch(child: int, beat_reader: int, stop_writer: int) -> int:
    """Wait for the publisher; stop it on request, and kill it if it hangs."""
    last_beat = time.monotonic()
    stopped_at: float | None = None
    with _signals() as signal_reader:
        sources = [0, beat_reader, signal_reader]
        while True:
            ready, _, _ = select.select(sources, [], [], 0.5)
            now = time.monotonic()
            if beat_reader in ready:
                if not os.read(beat_reader, 64):
                    break
                last_beat = now
            # Other input on standard input is ignored; only its end counts.
            if signal_reader in ready or (0 in ready and not os.read(0, 4096)):
                sources = [beat_reader]
                stopped_at = now
                os.close(stop_writer)
            if stopped_at is not None and now - stopped_at > _STOP:
                _end(child)
                return 0
            if now - last_beat > _SILENCE:
                _end(child)
                return _fail(f"no answer from the server for {_SILENCE:.0f} s")
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _fail(f"the publisher was ended by signal {-code}")


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@contextmanager
def _signals() -> Generator[int]:
    """Yield a descriptor that becomes readable when SIGTERM or SIGINT arrives."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)


# The publishing process.


def _publisher(order: PatternOrder, watcher: int, beat_writer: int, stop_reader: int) -> int:
    """Publish and return the exit status; only the watcher handles signals."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(watcher)
    av_logging.set_level(av_logging.ERROR)
    with av_logging.Capture(local=False) as logs:
        outcome = "refused"
        try:
            with closing(_open(order)) as target:
                outcome = "lost"
                os.write(beat_writer, b".")
                _publish(target, order, beat_writer, stop_reader)
        except (OSError, FFmpegError) as error:
            return _fail(f"{outcome}: " + _reason(order.url, error, [line for *_, line in logs]))
    return 0


def _reason(url: str, error: OSError | FFmpegError, log_lines: list[str]) -> str:
    """Return the library's message for a failure, without the secrets in the address."""
    lines = [text.strip() for text in log_lines if text.strip()]
    # "Server error: ..." is the server's own message. Otherwise the first line has the cause.
    server_errors = [text for text in lines if text.startswith("Server error")]
    message = next(iter((*server_errors, *lines)), str(error.strerror))
    parts = urlsplit(url)
    _, *names = parts.path.strip("/").split("/")
    secrets = {*names, *(half for name in names for half in name.split("_"))}
    secrets |= {parts.query, parts.username or "", parts.password or ""}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        message = message.replace(secret, "...")
    return message


def _open(order: PatternOrder) -> OutputContainer:
    """Connect, and get the server to accept the publication."""
    target = av.open(order.url, "w", format="flv", container_options=_CONTAINER)
    _add_video(target, order)
    _add_audio(target)
    target.start_encoding()
    return target


def _publish(
    target: OutputContainer, order: PatternOrder, beat_writer: int, stop_reader: int
) -> None:
    video, audio = target.streams.video[0], target.streams.audio[0]
    card, tone = TestCard(*order.size, order.fps), Tone()
    # The first frame's time is whole in frames since the epoch, so that each whole second of the
    # clock is a frame's time.
    epoch = time.time()
    first = int(epoch * order.fps) + 1
    last_beat = sample = 0
    for number in _due_frames(order, first, time.monotonic() - epoch, stop_reader):
        picture = card.frame(first + number)
        picture.pts, picture.time_base = number, Fraction(1, order.fps)
        _mux(target, video, picture)
        end = (number + 1) * AUDIO_SCALE // order.fps
        if end - sample > _LATE * AUDIO_SCALE:
            sample = number * AUDIO_SCALE // order.fps  # frames were left out
        while sample < end:
            sound = tone.frame(first * AUDIO_SCALE // order.fps + sample, _AUDIO_FRAME)
            sound.pts, sound.time_base = sample, Fraction(1, AUDIO_SCALE)
            _mux(target, audio, sound)
            sample += _AUDIO_FRAME
        if number >= last_beat + order.fps:
            last_beat = number
            os.write(beat_writer, b".")
    _mux(target, video, None)
    _mux(target, audio, None)


def _due_frames(
    order: PatternOrder, first: int, epoch_at: float, stop_reader: int
) -> Iterator[int]:
    """Yield the number of each frame when it is due, until the end or a request to stop.

    `first` is the first frame's tick since the epoch and `epoch_at` that epoch on the monotonic
    clock: each frame's time is computed from these, so that errors do not add up to a drift.
    """
    number = 0
    while order.seconds is None or number < order.seconds * order.fps:
        wait = (first + number) / order.fps + epoch_at - time.monotonic()
        stopped, _, _ = select.select([stop_reader], [], [], max(0.0, wait))
        if stopped:
            return
        if -wait > _LATE:
            number += int(-wait * order.fps)
        yield number
        number += 1


_CONTAINER: Final = {
    "flush_packets": "1",
    # No duration to go back and fill in: nothing is seekable on the way to a server.
    "flvflags": "no_duration_filesize",
}


def _add_video(target: OutputContainer, order: PatternOrder) -> None:
    width, height = order.size
    gop = _GOP_SECONDS * order.fps
    # A tenth of a bit a pixel: 2.8 Mbit/s for 1280 x 720 at 30 frames a second.
    rate = max(200_000, width * height * order.fps // 10)
    stream = target.add_stream("libx264", rate=order.fps)  # pyright: ignore[reportUnknownMemberType]  # PyAV's stubs leave **kwargs open
    context = stream.codec_context
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.time_base, context.framerate = Fraction(1, order.fps), Fraction(order.fps)
    context.gop_size, context.bit_rate = gop, rate
    context.thread_count = 1
    context.options = {
        "preset": "ultrafast",  # half the computing of "veryfast"
        "tune": "zerolatency",
        "profile": "main",
        "maxrate": str(rate),
        "bufsize": str(rate),
        "x264-params": f"keyint={gop}:min-keyint={gop}:scenecut=0"
        ":colorprim=bt709:transfer=bt709:colormatrix=bt709:range=tv",
    }


def _add_audio(target: OutputContainer) -> None:
    stream = target.add_stream("aac", rate=AUDIO_SCALE)  # pyright: ignore[reportUnknownMemberType]  # as above
    context = stream.codec_context
    context.layout, context.format, context.bit_rate = "stereo", "fltp", _AUDIO_RATE


def _mux(
    target: OutputContainer,
    stream: VideoStream | AudioStream,
    frame: Any,  # Any: a frame of the stream's kind; PyAV's stubs bind the two nowhere
) -> None:
    # The packets' stream is open in the stubs, too.
    target.mux(stream.encode(frame))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


if __name__ == "__main__":
    sys.exit(main())
