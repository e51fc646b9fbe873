"""Encoders: H.264 for pictures, AAC-LC for sound, each on the thread that calls it.

The pictures' profile is measured against Debian's ffmpeg with `-preset veryfast` by
`python -m bench.ladder`; the figures are in docs/benches.md.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from enum import Enum
from fractions import Fraction
from typing import Final

from av.audio.frame import AudioFrame
from av.codec.context import CodecContext, Flags
from av.video.frame import VideoFrame

from media.hls.fmp4 import Sample
from media.ladder import Rendition
from media.ticks import AUDIO_SCALE
from transcode.engine.codec.decode import TIME_BASE

__all__ = [
    "AAC_FRAME",
    "FILE_FACTORS",
    "LARGE",
    "PARAMETERS",
    "PRESET",
    "SOUND_TIME_BASE",
    "PictureEncoder",
    "Quality",
    "SoundEncoder",
]

AAC_FRAME: Final = 1024  # samples of an AAC-LC frame
SOUND_TIME_BASE: Final = Fraction(1, AUDIO_SCALE)

_SOUND_RATE: Final = 128_000  # bit/s
# Where the source does not tell its frame rate: it sets the level, which must not be too low.
_UNKNOWN_RATE: Final = Fraction(60)
# annexb=0 makes an avcC record and length-prefixed samples, as fMP4 wants them. B-frames come in
# pairs to which nothing refers: deciding their number, or a reference among them, was measured to
# cost more CPU than it brings in VMAF. Weighted P-frames brought nothing.
PRESET: Final = "superfast"
PARAMETERS: Final = (
    "annexb=0:mbtree=1:rc-lookahead=10:bframes=2:b-adapt=0:b-pyramid=none:weightp=0:scenecut=0"
)
# What large pictures get besides: where small sharp shapes scroll, 720p was 1.5 VMAF below
# veryfast's without it, and now is 0.3 below; it costs about 3 % of the ladder's CPU. Smaller ones
# need none of it: they gain more from how they are scaled.
LARGE: Final = ":me=hex:partitions=p8x8,i8x8,i4x4:rc-lookahead=14:aq-strength=0.4"
_LARGE_FROM: Final = 540  # lines, or columns of an upright picture
_BUFFER_SECONDS: Final = 2
# IDR pictures come where they are asked for; this is far beyond the longest segment.
_GOP_SECONDS: Final = 10


# Rate factors of files, of large pictures and of small ones: below the rung's ceiling the quality
# is held and not the rate. Small pictures are brought up to the screen's size, and what they lack
# with them. A camera's noise before a still room looks as good with them to VMAF as ffmpeg's at the
# ceiling, for half the bits; what moves a lot takes the ceiling (`python -m bench.vod`).
FILE_FACTORS: Final = ("19", "17")


class Quality(Enum):
    """What an encoder holds: the rate, up to which a live stream's viewers and its uplink are set,
    or the quality, below that rate, where nobody waits for the bytes.
    """

    LIVE = "live"
    FILE = "file"


class PictureEncoder:
    """Encodes pictures of `rendition`'s size and rate; `like` is one, for its colours.

    `rate` is the frames a second, None where nobody knows.
    """

    def __init__(
        self,
        rendition: Rendition,
        like: VideoFrame,
        rate: Fraction | None,
        quality: Quality = Quality.LIVE,
    ) -> None:
        context = CodecContext.create("libx264", "w")
        rate = rate or _UNKNOWN_RATE
        context.width, context.height = rendition.width, rendition.height
        context.pix_fmt = "yuv420p"
        context.time_base, context.framerate = TIME_BASE, rate
        context.sample_aspect_ratio = Fraction(1)
        context.color_range, context.colorspace = like.color_range, like.colorspace
        context.color_primaries, context.color_trc = like.color_primaries, like.color_trc
        # More threads cost more CPU in all; each rung has a thread of its own already.
        context.thread_count = 1
        context.gop_size = round(_GOP_SECONDS * rate)
        context.bit_rate = rendition.rate
        context.flags |= Flags.global_header
        context.options = {
            "preset": PRESET,
            "profile": "high",
            "forced-idr": "1",
            "maxrate": str(rendition.rate),
            "bufsize": str(rendition.rate * _BUFFER_SECONDS),
            "x264-params": PARAMETERS + (LARGE if _is_large(rendition) else ""),
        }
        if quality is Quality.FILE:
            context.options["crf"] = FILE_FACTORS[0 if _is_large(rendition) else 1]
        context.open()
        self._context = context

    @property
    def config(self) -> bytes:
        """The avcC record."""
        return self._context.extradata or b""

    def encode(self, frame: VideoFrame | None) -> list[Sample]:
        """Encode a picture (None: what is still inside); samples come in decode order.

        Their duration is not known here and 0.

        Raises:
            av.error.FFmpegError: the encoder refused the picture.
        """
        return [
            Sample(packet.dts, packet.pts, 0, packet.is_keyframe, bytes(packet))
            for packet in self._context.encode(frame)
            if packet.dts is not None and packet.pts is not None
        ]


def _is_large(rendition: Rendition) -> bool:
    return min(rendition.width, rendition.height) >= _LARGE_FROM


class SoundEncoder:
    """Encodes 48 kHz stereo frames of 1024 samples."""

    def __init__(self) -> None:
        context = CodecContext.create("aac", "w")
        context.sample_rate, context.layout, context.format = AUDIO_SCALE, "stereo", "fltp"
        context.bit_rate = _SOUND_RATE
        context.time_base = SOUND_TIME_BASE
        context.thread_count = 1
        context.flags |= Flags.global_header | Flags.bitexact
        context.open()
        self._context = context

    @property
    def config(self) -> bytes:
        """The AudioSpecificConfig."""
        return self._context.extradata or b""

    def encode(self, frame: AudioFrame | None) -> list[Sample]:
        """Encode a frame (None: what is still inside).

        The first sample lies one frame before the first frame's time: it primes a decoder.
        """
        return [
            Sample(packet.pts, packet.pts, AAC_FRAME, True, bytes(packet))
            for packet in self._context.encode(frame)
            if packet.pts is not None
        ]
