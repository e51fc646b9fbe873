"""Decoders by a track's codec, and the one place where coded bytes become the library's packets.

A decoder keeps the stamps that it is given: frames come out in ticks of 90 000 a second on the
output clock. What a track cannot describe, a file's own decoders can (`Decoders`).
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from fractions import Fraction
from typing import Final, Protocol

from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.codec.context import CodecContext
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from media.ticks import VIDEO_SCALE
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack

__all__ = [
    "TIME_BASE",
    "Decoders",
    "PictureDecoder",
    "PictureSource",
    "SoundDecoder",
    "SoundSource",
    "packet_of",
]

TIME_BASE: Final = Fraction(1, VIDEO_SCALE)

# The largest picture of H.264's highest level (14496-10, table A-1: 139 264 macroblocks). A few
# bytes can claim a larger one and would cost gigabytes.
_MOST_PIXELS: Final = str(139_264 * 256)

_PICTURE: Final = {
    VideoCodec.AVC: "h264",
    VideoCodec.HEVC: "hevc",
    VideoCodec.AV1: "libdav1d",
    VideoCodec.VP9: "vp9",
}
_SOUND: Final = {
    AudioCodec.AAC: "aac",
    AudioCodec.OPUS: "opus",
    AudioCodec.MP3: "mp3",
    AudioCodec.FLAC: "flac",
    AudioCodec.AC3: "ac3",
    AudioCodec.EAC3: "eac3",
}


class PictureSource(Protocol):
    """What makes pictures out of packets; raises as `PictureDecoder` does."""

    @property
    def aspect(self) -> Fraction | None:
        """A pixel's width by its height, where it is known."""
        ...

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit."""
        ...

    def drain(self) -> list[VideoFrame]:
        """Return the frames that are still inside."""
        ...


class SoundSource(Protocol):
    """What makes sound out of packets; raises as `SoundDecoder` does."""

    def decode(self, data: bytes, pts: int) -> list[AudioFrame]:
        """Decode one packet."""
        ...

    def drain(self) -> list[AudioFrame]:
        """Return what is still inside."""
        ...


class Decoders(Protocol):
    """A source's own decoders, instead of those that its tracks call for; each is taken once."""

    def picture(self) -> PictureSource:
        """Return the decoder of the picture track."""
        ...

    def sound(self) -> SoundSource:
        """Return the decoder of the sound track."""
        ...


class PictureDecoder:
    """Decodes pictures of `track` on the calling thread.

    `order_known` says that the source tells how far it reorders frames; where it does not, the
    decoder must expect the most that its level allows, or it would lose frames in finding out.

    Raises:
        av.error.FFmpegError: the decoder does not take the track's configuration.
    """

    def __init__(self, track: VideoTrack, *, order_known: bool) -> None:
        context = CodecContext.create(_PICTURE[track.codec], "r")
        if not isinstance(context, VideoCodecContext):
            raise TypeError(track.codec.name)
        context.extradata = track.config or None
        context.thread_count = 1
        context.options = {"max_pixels": _MOST_PIXELS}
        if not order_known:
            context.options["strict"] = "1"
        context.open()
        self._context = context

    @property
    def aspect(self) -> Fraction | None:
        """A pixel's width by its height, where the decoder has learnt it."""
        return self._context.sample_aspect_ratio or None

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit; frames come out in showing order, some packets later.

        Raises:
            av.error.FFmpegError: it is damaged; the next may be decoded all the same.
        """
        return self._context.decode(packet_of(data, dts, pts))

    def drain(self) -> list[VideoFrame]:
        """Return the frames that are still inside; nothing is decoded afterwards.

        Raises:
            av.error.FFmpegError: one of them is damaged.
        """
        return self._context.decode(None)


class SoundDecoder:
    """Decodes sound of `track` on the calling thread.

    Raises:
        av.error.FFmpegError: the decoder does not take the track's configuration.
    """

    def __init__(self, track: AudioTrack) -> None:
        context = CodecContext.create(_SOUND[track.codec], "r")
        if not isinstance(context, AudioCodecContext):
            raise TypeError(track.codec.name)
        context.extradata = track.config or None
        context.sample_rate = track.rate
        context.thread_count = 1
        context.open()
        self._context = context

    def decode(self, data: bytes, pts: int) -> list[AudioFrame]:
        """Decode one packet.

        Raises:
            av.error.FFmpegError: it is damaged; the next may be decoded all the same.
        """
        return self._context.decode(packet_of(data, pts, pts))

    def drain(self) -> list[AudioFrame]:
        """Return what is still inside; nothing is decoded afterwards.

        Raises:
            av.error.FFmpegError: it is damaged.
        """
        return self._context.decode(None)


def packet_of(data: bytes, dts: int, pts: int) -> "Packet[Stream]":
    """Return the library's packet; times are on the output clock."""
    # `Packet(data)` would lend the decoder our bytes, which lack the 64 bytes of padding that bit
    # readers run into (AV_INPUT_BUFFER_PADDING_SIZE): a stranger's bytes could make it read beyond
    # them. The copy costs microseconds.
    packet: Packet[Stream] = Packet(len(data))
    packet.update(data)
    packet.time_base = TIME_BASE
    packet.dts, packet.pts = dts, pts
    return packet
