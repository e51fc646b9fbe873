"""One programme as several encoders send it: films made beforehand, sent in real time.

Each picture shows its place in the programme (`tests.support.e2e.clock_video`), and no moment of
the sound is like another. A film has its own keyframes and reordering, and may begin later in the
programme than another.
"""

import time
from pathlib import Path

import msgspec
import numpy as np

from tests.support.e2e import clock_video
from tests.support.e2e.publishers import tool
from tests.support.engine.programmes import RATE, Wave, programme
from tests.support.made_media import CACHE, make_file

_BEGAN_MS = 1000  # the clock's time at the programme's beginning; 0 means the time of day
_SEED = 44
# Noise below all else, so that sound which is missing is found also in a pause.
_FLOOR = 0.02
_CODING = (
    "-c:v libx264 -preset ultrafast -profile:v main -bf {b_frames} -b_strategy 0 -sc_threshold 0 "
    "-g {gop} -keyint_min {gop} -threads 1 -b:v 400k -maxrate 400k -bufsize 400k "
    "-c:a aac -b:a 128k -ac 2"
)
# An encoder has started, and connects, so long after it was called.
_START_SECONDS = 0.15


class FilmKind(msgspec.Struct, frozen=True, kw_only=True):
    """How an encoder sends the programme: seconds from keyframe to keyframe, and its reordering.

    `later` is where the film begins, in pictures of the programme.
    """

    gop: float = 2.0
    b_frames: int = 2
    fps: int = 30
    later: int = 0
    size: str = clock_video.TWO_RUNGS

    @property
    def name(self) -> str:
        return f"{self.gop:g} s, {self.b_frames} B"

    @property
    def begins(self) -> float:
        """Where the film begins in the programme, in seconds."""
        return self.later / self.fps


def whole_sound(seconds: float) -> Wave:
    """Return the programme's sound."""
    noise = np.random.default_rng(_SEED).standard_normal(round(seconds * RATE)) * _FLOOR
    return np.clip(programme(seconds, _SEED) + noise, -1, 1).astype(np.float32)


def number_of(stamp: int, fps: int) -> int:
    """Return the number of the picture that shows a clock."""
    return round((stamp - _BEGAN_MS) * fps / 1000)


def make_film(kind: FilmKind, seconds: float, path: Path) -> Path:
    """Encode the programme's first `seconds` as an encoder of that kind does, in advance."""
    sound = CACHE / f"programme-{_SEED}-{seconds:g}.raw"
    if not sound.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        new = sound.with_suffix(".new")
        new.write_bytes(whole_sound(seconds).tobytes())
        new.replace(sound)
    gop = round(kind.gop * kind.fps)
    began = _BEGAN_MS + round(kind.begins * 1000)
    make_file(
        [
            tool("ffmpeg"), "-nostdin", "-v", "error", "-y",
            "-f", "lavfi", "-i", f"{clock_video.CELLS}:r={kind.fps}",
            "-ss", f"{kind.begins:.6f}", "-f", "f32le", "-ar", str(RATE), "-ac", "1",
            "-i", str(sound),
            "-vf", clock_video.clock_filter(kind.size, began),
            "-t", f"{seconds - kind.begins:.3f}",
            *_CODING.format(gop=gop, b_frames=kind.b_frames).split(),
        ],
        path,
        seconds=600,
    )  # fmt: skip
    return path


class FilmSender(msgspec.Struct, frozen=True, kw_only=True):
    """An encoder that sends a film: the programme's beginning is due at `epoch` (monotonic)."""

    film: Path
    kind: FilmKind
    epoch: float
    url: str

    def command(self) -> list[str]:
        """Wait for the film's next keyframe, and return the command of an encoder from there on."""
        due = time.monotonic() + _START_SECONDS - self.epoch - self.kind.begins
        keyframe = max(0, -int(-due // self.kind.gop))
        wait = keyframe * self.kind.gop - due
        time.sleep(max(0.0, wait))
        # Half a picture after it: what is sent begins with the keyframe before.
        since = keyframe * self.kind.gop + 0.5 / self.kind.fps if keyframe else 0.0
        return [
            tool("ffmpeg"), "-nostdin", "-v", "error", "-re", "-ss", f"{since:.4f}",
            "-i", str(self.film), "-c", "copy", "-flush_packets", "1", "-f", "flv", self.url,
        ]  # fmt: skip
