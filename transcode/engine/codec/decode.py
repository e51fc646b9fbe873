"""Decoders by a track's codec, and the place where bytes become the library's packets and frames.

A decoder keeps the timestamps of its packets: frames have ticks of 90 000 a second on the output
clock. A file's own decoders (`DecoderFactory`) replace these for tracks that cannot be described by
codec and configuration.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence
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

TIME_BASE: Final = Fraction(1, VIDEO_SCALE)

# The largest picture of H.264's highest level (14496-10, table A-1: 139 264 macroblocks). A few
# bytes can declare a larger one, which would cost gigabytes.
MOST_PIXELS: Final = 139_264 * 256
SAMPLE_BYTES: Final = 4  # of a plane of "fltp"

_VIDEO_CODECS: Final = {
    VideoCodec.AVC: "h264",
    VideoCodec.HEVC: "hevc",
    VideoCodec.AV1: "libdav1d",
    VideoCodec.VP9: "vp9",
}
_AUDIO_CODECS: Final = {
    AudioCodec.AAC: "aac",
    AudioCodec.OPUS: "opus",
    AudioCodec.MP3: "mp3",
    AudioCodec.FLAC: "flac",
    AudioCodec.AC3: "ac3",
    AudioCodec.EAC3: "eac3",
}


class VideoDecoder(Protocol):
    """Turns packets into pictures; raises as `TrackVideoDecoder` does."""

    @property
    def aspect(self) -> Fraction | None:
        """A pixel's width by its height, if it is known."""
        ...

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit."""
        ...

    def drain(self) -> list[VideoFrame]:
        """Return the frames that the decoder still holds."""
        ...


class AudioDecoder(Protocol):
    """Turns packets into sound; raises as `TrackAudioDecoder` does."""

    def decode(self, data: bytes, pts: int | None) -> list[AudioFrame]:
        """Decode one packet; None if its time is unknown."""
        ...

    def drain(self) -> list[AudioFrame]:
        """Return the frames that the decoder still holds."""
        ...


class DecoderFactory(Protocol):
    """A source's own decoders, used instead of those for its tracks; each is requested once."""

    def video(self) -> VideoDecoder:
        """Return the decoder of the video track."""
        ...

    def audio(self) -> AudioDecoder:
        """Return the decoder of the audio track."""
        ...


class TrackVideoDecoder:
    """Decodes the pictures of `track` on the calling thread.

    `order_known` is True if the source declares how far it reorders frames. Otherwise the decoder
    must expect the most that its level allows, or it would lose frames while finding out.

    Raises:
        av.error.FFmpegError: the decoder rejects the track's configuration.
    """

    def __init__(self, track: VideoTrack, *, order_known: bool) -> None:
        context = CodecContext.create(_VIDEO_CODECS[track.codec], "r")
        if not isinstance(context, VideoCodecContext):
            raise TypeError(track.codec.name)
        context.extradata = track.config or None
        context.thread_count = 1
        context.options = {"max_pixels": str(MOST_PIXELS)}
        if not order_known:
            context.options["strict"] = "1"
        context.open()
        self._context = context

    @property
    def aspect(self) -> Fraction | None:
        """A pixel's width by its height, once the decoder knows it."""
        return self._context.sample_aspect_ratio or None

    def skip_unreferenced(self, *, on: bool) -> None:
        """Set whether pictures that no other picture needs are left undecoded from here on."""
        self._context.skip_frame = "NONREF" if on else "DEFAULT"

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit; frames come in presentation order, some packets later.

        Raises:
            av.error.FFmpegError: it is damaged; the next one may still be decodable.
        """
        return self._context.decode(av_packet(data, dts, pts))

    def drain(self) -> list[VideoFrame]:
        """Return the frames that the decoder still holds; it cannot decode any more.

        Raises:
            av.error.FFmpegError: one of them is damaged.
        """
        return self._context.decode(None)


class TrackAudioDecoder:
    """Decodes the sound of `track` on the calling thread.

    Raises:
        av.error.FFmpegError: the decoder rejects the track's configuration.
    """

    def __init__(self, track: AudioTrack) -> None:
        context = CodecContext.create(_AUDIO_CODECS[track.codec], "r")
        if not isinstance(context, AudioCodecContext):
            raise TypeError(track.codec.name)
        context.extradata = track.config or None
        context.sample_rate = track.rate
        context.thread_count = 1
        context.open()
        self._context = context

    def decode(self, data: bytes, pts: int | None) -> list[AudioFrame]:
        """Decode one packet; None if its time is unknown.

        Raises:
            av.error.FFmpegError: it is damaged; the next one may still be decodable.
        """
        return self._context.decode(av_packet(data, pts, pts))

    def drain(self) -> list[AudioFrame]:
        """Return the frames that the decoder still holds; it cannot decode any more.

        Raises:
            av.error.FFmpegError: it is damaged.
        """
        return self._context.decode(None)


class PacketData(bytes):
    """The bytes of a file's packet, and the packet: its decoder needs what lies beside the bytes.

    That is a new configuration, a palette, or the flag of a picture that is decoded but not shown.
    `earlier` are packets before it that are not decoded on their own, with times relative to its.
    `is_last` is True if no other packet of the track follows.
    """

    packet: "Packet[Stream]"
    earlier: "Sequence[Packet[Stream]]"
    is_last: bool

    def __new__(
        cls,
        packet: "Packet[Stream]",
        earlier: "Sequence[Packet[Stream]]" = (),
        *,
        is_last: bool = False,
    ) -> "PacketData":
        """Copy the bytes of a packet."""
        data = super().__new__(cls, packet)
        data.packet, data.earlier, data.is_last = packet, earlier, is_last
        return data


def av_packet(data: bytes, dts: int | None, pts: int | None) -> "Packet[Stream]":
    """Return the library's packet; times are on the output clock."""
    # `Packet(data)` would lend our bytes to the decoder. They lack the 64 bytes of padding that bit
    # readers run into (AV_INPUT_BUFFER_PADDING_SIZE), so hostile data could make it read beyond
    # them. The copy costs microseconds.
    packet: Packet[Stream] = Packet(len(data))
    packet.update(data)
    packet.time_base = TIME_BASE
    packet.dts, packet.pts = dts, pts
    return packet


def stereo_frame(samples: int, planes: tuple[bytes, ...], rate: int) -> AudioFrame:
    """Return a frame of two channels ("fltp"), which has no time yet."""
    frame = AudioFrame("fltp", "stereo", samples)
    frame.sample_rate = rate
    for plane, data in zip(frame.planes, planes, strict=True):
        plane.update(data.ljust(plane.buffer_size, b"\0"))
    return frame
