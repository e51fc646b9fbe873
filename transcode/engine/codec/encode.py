"""Encoders: H.264 for pictures, AAC-LC for sound, each on the thread that calls it.

The settings for pictures were measured against Debian's ffmpeg with `-preset veryfast` by `python
-m bench.ladder`; the figures are in docs/benches.md.
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

from media.codecs.avc import without_timing
from media.hls.fmp4 import Sample
from media.ladder import BURST_SECONDS, Rendition
from media.ticks import AUDIO_SCALE
from transcode.engine.codec.decode import TIME_BASE

AAC_FRAME: Final = 1024  # samples of an AAC-LC frame
AUDIO_TIME_BASE: Final = Fraction(1, AUDIO_SCALE)

_AUDIO_RATE: Final = 128_000  # bit/s
# For sources with an unknown frame rate. It determines the level, which must not be too low.
_UNKNOWN_RATE: Final = Fraction(60)
# annexb=0 makes an avcC record and length-prefixed samples, as fMP4 needs them. B-frames come in
# pairs that are not referenced: deciding their number, or referencing them, was measured to cost
# more CPU than it gains in VMAF. Weighted P-frames gained nothing.
PRESET: Final = "superfast"
PARAMETERS: Final = (
    "annexb=0:mbtree=1:rc-lookahead=10:bframes=2:b-adapt=0:b-pyramid=none:weightp=0:scenecut=0"
)
# Added for large pictures: where small sharp shapes scroll, 720p was 1.5 VMAF below veryfast's
# without it, and is 0.3 below with it; it costs about 3 % of the ladder's CPU. Smaller pictures do
# not need it: they gain more from the way they are scaled.
LARGE_PARAMETERS: Final = ":me=hex:partitions=p8x8,i8x8,i4x4:rc-lookahead=14:aq-strength=0.4"
_LARGE_FROM: Final = 540  # lines, or columns of an upright picture
# Of the rung's rate. Live playlists announce the peak that follows from it (`Rendition.peak_rate`);
# those of files announce what was measured.
_FILE_BURST_SECONDS: Final = 2.0
# Seconds for which an encoder with low delay holds pictures back: two of 24 a second. B-frames are
# what is missed most (up to 6 VMAF where fine texture moves), then the lookahead (1 VMAF). With
# force-cfr the encoder does not wait for the next picture to learn how long one is shown; its rate
# is right as long as the frame rate is.
_MOST_DELAY: Final = Fraction(1, 12)
_HELD_WITH_B_FRAME: Final = 2
_HELD_WITH_LOOKAHEAD: Final = 4
# IDR pictures are forced at the cuts; this is far beyond the longest segment.
_GOP_SECONDS: Final = 10


# Constant rate factors for files, of large and of small pictures: below the rung's maximum rate the
# quality is held, not the rate. Small pictures are enlarged on screen, and their flaws with them. A
# camera's noise before a still room scores the same VMAF as ffmpeg's at the maximum rate, for half
# the bits; fast motion uses the maximum (`python -m bench.vod`).
FILE_FACTORS: Final = ("19", "17")


class Quality(Enum):
    """What an encoder holds constant: the rate, on which a live stream's viewers and its uplink
    rely, or the quality, below that rate, for files. With `LOW_DELAY` the rate is constant, too,
    and the encoder holds back few pictures (see `_low_delay`).
    """

    LIVE = "live"
    LOW_DELAY = "low delay"
    FILE = "file"


class VideoEncoder:
    """Encodes pictures of `rendition`'s size and rate; the colours are those of the picture `like`.

    `rate` is the frames a second, None if unknown. `in_order`: pictures are decoded in the order in
    which they are shown.
    """

    def __init__(
        self,
        rendition: Rendition,
        like: VideoFrame,
        rate: Fraction | None,
        quality: Quality = Quality.LIVE,
        *,
        in_order: bool = False,
    ) -> None:
        context = CodecContext.create("libx264", "w")
        burst = _FILE_BURST_SECONDS if quality is Quality.FILE else BURST_SECONDS
        rate = rate or _UNKNOWN_RATE
        context.width, context.height = rendition.width, rendition.height
        context.pix_fmt = "yuv420p"
        context.time_base, context.framerate = TIME_BASE, rate
        context.sample_aspect_ratio = Fraction(1)
        context.color_range, context.colorspace = like.color_range, like.colorspace
        context.color_primaries, context.color_trc = like.color_primaries, like.color_trc
        # More threads cost more CPU in total; each rendition has its own thread already.
        context.thread_count = 1
        context.gop_size = round(_GOP_SECONDS * rate)
        context.bit_rate = rendition.rate
        context.flags |= Flags.global_header
        context.options = {
            "preset": PRESET,
            "profile": "high",
            "forced-idr": "1",
            "maxrate": str(rendition.rate),
            "bufsize": str(round(rendition.rate * burst)),
            "x264-params": PARAMETERS + (LARGE_PARAMETERS if _is_large(rendition) else ""),
        }
        if quality is Quality.LOW_DELAY:
            context.options["x264-params"] += _low_delay(rate)
        if in_order:
            context.options["x264-params"] += ":bframes=0"
        if quality is Quality.FILE:
            context.options["crf"] = FILE_FACTORS[0 if _is_large(rendition) else 1]
        context.open()
        self._context = context
        self._constant_rate = quality is Quality.LOW_DELAY

    @property
    def config(self) -> bytes:
        """The avcC record.

        With low delay it names the frame rate, on which the encoder relies, else none. The library
        would write its time base, 90 000 pictures a second, and GStreamer believes that where times
        are rounded or irregular: in WebKitGTK each picture then lasts for 11 microseconds, and
        playback stops in the holes between them.
        """
        config = self._context.extradata or b""
        return config if self._constant_rate else without_timing(config)

    def encode(self, frame: VideoFrame | None) -> list[Sample]:
        """Encode a picture (None: flush the encoder); samples come in decode order.

        Their duration is not known here and is 0.

        Raises:
            av.error.FFmpegError: the encoder refused the picture.
        """
        return [
            Sample(packet.dts, packet.pts, 0, packet.is_keyframe, bytes(packet))
            for packet in self._context.encode(frame)
            if packet.dts is not None and packet.pts is not None
        ]


def _low_delay(rate: Fraction) -> str:
    """Return the parameters, added to the usual ones, that bound the delay at a frame rate.

    With them an encoder holds back two pictures, one of which is a B-frame; four from 48 a second
    on, two of which are its lookahead; none below 24.
    """
    delayed = int(_MOST_DELAY * rate)
    lookahead = 3 if delayed >= _HELD_WITH_LOOKAHEAD else 0
    return (
        f":force-cfr=1:sync-lookahead=0:bframes={1 if delayed >= _HELD_WITH_B_FRAME else 0}"
        f":mbtree={1 if lookahead else 0}:rc-lookahead={lookahead}"
    )


def _is_large(rendition: Rendition) -> bool:
    return min(rendition.width, rendition.height) >= _LARGE_FROM


class AudioEncoder:
    """Encodes 48 kHz stereo frames of 1024 samples."""

    def __init__(self) -> None:
        context = CodecContext.create("aac", "w")
        context.sample_rate, context.layout, context.format = AUDIO_SCALE, "stereo", "fltp"
        context.bit_rate = _AUDIO_RATE
        context.time_base = AUDIO_TIME_BASE
        context.thread_count = 1
        context.flags |= Flags.global_header | Flags.bitexact
        context.open()
        self._context = context

    @property
    def config(self) -> bytes:
        """The AudioSpecificConfig."""
        return self._context.extradata or b""

    def encode(self, frame: AudioFrame | None) -> list[Sample]:
        """Encode a frame (None: flush the encoder).

        The first sample is one frame earlier than the first frame: it primes a decoder.
        """
        return [
            Sample(packet.pts, packet.pts, AAC_FRAME, True, bytes(packet))
            for packet in self._context.encode(frame)
            if packet.pts is not None
        ]
