"""An encoder that publishes the time of day in its pictures: `python -m bench.latency.encoder`.

    python -m bench.latency.encoder URL --profile fast

1280x720 (or 640x360) at 30 frames a second with stereo sound, to any RTMP address, until SIGTERM.
Each picture carries the time at which it was drawn (`bench.latency.clock`), at the moment when it
is due. Lines of JSON on standard output say when the server has accepted the stream, and at the end
how long pictures took from being drawn to being sent, and how many there were in a second.
"""

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from fractions import Fraction
from typing import Any, Final

import av
from av.container import OutputContainer

from bench.latency.clock import WRAP_MS, draw
from media.ticks import AUDIO_SCALE
from transcode.engine.testsource.testcard import TestCard, Tone

SIZES: Final = {720: (1280, 720), 360: (640, 360)}
_FPS: Final = 30
_AUDIO_FRAME: Final = 1024
_KILOBITS: Final = 2500  # OBS' default for video; its sound has 160

# x264's options. OBS adds nothing to the preset but the bit rate: constant, with a buffer of one
# second, three B-frames, ten frames of look-ahead, and key frames where the picture changes. Its
# keyframe interval is "0 = auto" by default, x264's 250 frames; we advise 2 s (docs/publish.md).
PROFILES: Final = {
    "fast": {
        "preset": "superfast",
        "tune": "zerolatency",
        "x264-params": f"keyint={_FPS}:min-keyint={_FPS}:scenecut=0",
    },
    "obs": {"x264-params": f"keyint={2 * _FPS}"},
    "obs-auto": {"x264-params": "keyint=250"},
}


def main() -> int:
    """Publish until SIGTERM and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency.encoder", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--profile", choices=PROFILES, default="fast")
    parser.add_argument("--height", type=int, choices=SIZES, default=720)
    options = parser.parse_args()
    size = SIZES[options.height]
    # An exception raised amid the libraries' calls would leave their threads waiting.
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: over.set())
    delays: list[float] = []
    # Written at once: FFmpeg would collect pictures until its buffer is full.
    container = {"flush_packets": "1", "flvflags": "no_duration_filesize"}
    with av.open(options.url, "w", format="flv", container_options=container) as target:
        _add_tracks(target, size, PROFILES[options.profile])
        target.start_encoding()
        began = time.monotonic()
        print(json.dumps({"event": "accepted"}), flush=True)
        _publish(target, size, began, delays, over)
    median = statistics.median(delays) if delays else None
    rate = len(delays) / (time.monotonic() - began)
    summary = {"event": "ended", "pictures": len(delays), "delay": median, "rate": rate}
    print(json.dumps(summary), flush=True)
    return 0


def _add_tracks(target: OutputContainer, size: tuple[int, int], profile: dict[str, str]) -> None:
    video = target.add_stream("libx264", rate=_FPS)  # pyright: ignore[reportUnknownMemberType]  # PyAV's stubs leave **kwargs open
    context = video.codec_context
    (context.width, context.height), context.pix_fmt = size, "yuv420p"
    context.time_base, context.framerate = Fraction(1, _FPS), Fraction(_FPS)
    context.bit_rate = _KILOBITS * 1000
    rate = f"{_KILOBITS}k"
    context.options = {"preset": "veryfast", "maxrate": rate, "bufsize": rate, **profile}
    audio = target.add_stream("aac", rate=AUDIO_SCALE)  # pyright: ignore[reportUnknownMemberType]  # as above
    sound = audio.codec_context
    sound.layout, sound.format, sound.bit_rate = "stereo", "fltp", 160_000


def _publish(
    target: OutputContainer,
    size: tuple[int, int],
    began: float,
    delays: list[float],
    over: threading.Event,
) -> None:
    """Send a picture whenever one is due, until `over` is set.

    `delays` gets the seconds from drawing to sending. A picture that is late by a whole frame is
    left out, as in OBS, so that timestamps keep pace with the wall clock.
    """
    card, tone = TestCard(*size, _FPS), Tone()
    number = sample = 0
    drawn: dict[int, float] = {}
    while not over.is_set():
        number = max(number, int((time.monotonic() - began) * _FPS))
        time.sleep(max(0.0, began + number / _FPS - time.monotonic()))
        picture = card.frame(number)
        drawn[number] = time.monotonic()
        plane = picture.planes[0]
        now = int(time.time() * 1000) % WRAP_MS
        draw(memoryview(plane), plane.line_size, *size, now)
        picture.pts, picture.time_base = number, Fraction(1, _FPS)
        for packet in _encoded(target, 0, picture):
            pts = round(float(packet.pts * packet.time_base) * _FPS)
            target.mux(packet)  # pyright: ignore[reportUnknownMemberType]  # as above
            delays.append(time.monotonic() - drawn.pop(pts))
        number += 1
        while sample < number * AUDIO_SCALE // _FPS:
            sound = tone.frame(sample, _AUDIO_FRAME)
            sound.pts, sound.time_base = sample, Fraction(1, AUDIO_SCALE)
            target.mux(_encoded(target, 1, sound))  # pyright: ignore[reportUnknownMemberType]  # as above
            sample += _AUDIO_FRAME


def _encoded(
    target: OutputContainer,
    track: int,
    frame: Any,  # Any: a frame of the track's kind, which PyAV's stubs do not connect
) -> list[Any]:  # packets, for the same reason
    return target.streams[track].encode(frame)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


if __name__ == "__main__":
    sys.exit(main())
