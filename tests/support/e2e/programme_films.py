"""One programme as several encoders send it: films made beforehand, sent in real time.

Each picture shows its place in the programme (`tests.support.e2e.clock_video`), and no moment of
the sound is like another. A film has its own keyframes and reordering, and may begin later in the
programme than another.
"""

import threading
import time
from pathlib import Path

import imageio_ffmpeg
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
_CODING = {
    "h264": (
        "-c:v libx264 -preset ultrafast -profile:v {profile} -bf {b_frames} -b_strategy 0 "
        "-sc_threshold 0 -g {gop} -keyint_min {gop} -threads 1 {rate}"
    ),
    "hevc": (
        "-c:v libx265 -preset ultrafast {rate} -x265-params log-level=error:scenecut=0:open-gop=0:"
        "b-adapt=0:bframes={b_frames}:keyint={gop}:min-keyint={gop}:pools=1:frame-threads=1"
    ),
}
_PIXELS_PER_KBIT = 262.4  # 400 kbit/s of the usual size
_RATE = "-b:v {kbit}k -maxrate {kbit}k -bufsize {kbit}k"
_SOUND = "-c:a aac -b:a {kbit}k -ac {channels}"
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
    codec: str = "h264"  # or "hevc"
    profile: str = "main"  # of H.264
    channels: int = 2

    @property
    def name(self) -> str:
        return f"{self.gop:g} s, {self.b_frames} B"

    @property
    def whole_name(self) -> str:
        """What tells encoders with other settings apart."""
        picture = f"HEVC {self.size}" if self.codec == "hevc" else f"{self.profile} {self.size}"
        return f"{picture} {self.fps} fps {'stereo' if self.channels == 2 else 'mono'}, {self.name}"

    @property
    def program(self) -> str:
        """The ffmpeg that encodes and sends the film: Debian's has no HEVC over RTMP."""
        return imageio_ffmpeg.get_ffmpeg_exe() if self.codec == "hevc" else tool("ffmpeg")

    def coding(self) -> list[str]:
        """Return the options of ffmpeg that encode the film."""
        width, height = map(int, self.size.split("x"))
        rate = _RATE.format(kbit=round(width * height / _PIXELS_PER_KBIT))
        gop = round(self.gop * self.fps)
        picture = _CODING[self.codec].format(
            profile=self.profile, b_frames=self.b_frames, gop=gop, rate=rate
        )
        sound = _SOUND.format(kbit=64 * self.channels, channels=self.channels)
        return [*picture.split(), *sound.split()]

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
        new = sound.with_suffix(f".{threading.get_ident()}")  # others may make it at once
        new.write_bytes(whole_sound(seconds).tobytes())
        new.replace(sound)
    began = _BEGAN_MS + round(kind.begins * 1000)
    make_file(
        [
            kind.program, "-nostdin", "-v", "error", "-y",
            "-f", "lavfi", "-i", f"{clock_video.CELLS}:r={kind.fps}",
            "-ss", f"{kind.begins:.6f}", "-f", "f32le", "-ar", str(RATE), "-ac", "1",
            "-i", str(sound),
            "-vf", clock_video.clock_filter(kind.size, began),
            "-t", f"{seconds - kind.begins:.3f}",
            *kind.coding(),
        ],
        path,
        seconds=1800,
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
            self.kind.program, "-nostdin", "-v", "error", "-re", "-ss", f"{since:.4f}",
            "-i", str(self.film), "-c", "copy", "-flush_packets", "1", "-f", "flv", self.url,
        ]  # fmt: skip
