"""The decoders that a file's container provides for its tracks, run on the calling thread."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import heapq
from contextlib import suppress
from fractions import Fraction
from typing import Final, TypeVar

from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import CodecContext
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from transcode.engine.codec.decode import MOST_PIXELS, TIME_BASE, PacketData, av_packet
from transcode.engine.input.container import pixel_aspect
from transcode.engine.input.edited_parts import PartJoiner, SeamWatch

__all__ = ["FileAudioDecoder", "FileDecoders", "FileVideoDecoder"]

# The decoders that read a new configuration where they find it beside a packet.
_RECONFIGURED: Final = ("h264", "hevc", "aac")

_Context = TypeVar("_Context", AudioCodecContext, VideoCodecContext)


class FileVideoDecoder:
    """The file's own video decoder; `timed` is True if the packets have presentation times."""

    def __init__(self, stream: VideoStream, *, timed: bool) -> None:
        self._context = stream.codec_context
        self._context.thread_count = 1
        self._context.options = {"max_pixels": str(MOST_PIXELS)}
        self._aspect = pixel_aspect(stream)
        self._timed = timed
        self._times: list[int] = []  # of the packets inside the decoder, earliest first
        self._packets_in = self._pictures_out = 0
        self._joiner = PartJoiner()
        self._begins_part = False  # with the next frame
        self._seams = SeamWatch()

    @property
    def aspect(self) -> Fraction:
        """A pixel's width by its height."""
        return self._aspect

    @property
    def all_failed(self) -> bool:
        """True if packets went in and no picture ever came out."""
        return self._packets_in > 0 and self._pictures_out == 0

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit."""
        frames: list[VideoFrame] = []
        if isinstance(data, PacketData):
            packet = data.packet
            packet.time_base, packet.dts, packet.pts = TIME_BASE, dts, pts
            for hidden in data.hidden:
                with suppress(FFmpegError):  # what is damaged there is not shown
                    frames += self._decode(hidden)
        else:
            packet = av_packet(data, dts, pts)
        if not packet.is_discard:
            self._packets_in += 1
        try:
            return frames + self._decode(packet)
        except FFmpegError:
            if not frames:
                raise
            return frames

    def _decode(self, packet: "Packet[Stream]") -> list[VideoFrame]:
        frames: list[VideoFrame] = []
        if self._seams.is_at(packet):
            frames += self.drain()
            self._context.flush_buffers()
            self._begins_part = True
        if _needs_other(self._context, packet):
            frames += self.drain()
            self._context = _replaced(self._context, packet)
        if not packet.is_discard:
            heapq.heappush(self._times, packet.pts or 0)
        try:
            decoded = self._context.decode(packet)
        except FFmpegError:
            if not frames:
                raise
            return frames
        held = self._context.reorder_depth + self._context.delay
        return frames + self._stamped(decoded, held=held)

    def drain(self) -> list[VideoFrame]:
        """Return the frames that the decoder still holds."""
        return self._stamped(self._context.decode(None), held=0)

    def _stamped(self, frames: list[VideoFrame], held: int) -> list[VideoFrame]:
        """Give frames without a time the earliest one left: they come in presentation order.

        The decoder holds at most `held` packets after these frames; the others that came to nothing
        are damaged, or one of two fields.
        """
        if not self._timed:
            for _ in range(len(self._times) - len(frames) - held):
                heapq.heappop(self._times)
        for frame in frames:
            self._pictures_out += 1
            if self._times and (not self._timed or frame.pts is None):
                frame.pts = heapq.heappop(self._times)
            while self._times and frame.pts is not None and self._times[0] <= frame.pts:
                heapq.heappop(self._times)
            if frame.pts is not None:
                frame.pts = self._joined(frame.pts)
        return frames

    def _joined(self, pts: int) -> int:
        """Return when a frame is shown: after those of the part before, where an edit list goes on.

        With B-frames, the library gives the first pictures of a part the times of the last ones.
        """
        if self._begins_part:
            self._joiner.begin(pts)
            self._begins_part = False
        return self._joiner.add(pts)


class FileAudioDecoder:
    """The file's own sound decoder."""

    def __init__(self, stream: AudioStream) -> None:
        self._context = stream.codec_context
        self._context.thread_count = 1

    def decode(self, data: bytes, pts: int) -> list[AudioFrame]:
        """Decode one packet; what an edit list leaves out only prepares the decoder."""
        # Not the packet itself: the decoder would count the samples to skip in the file's own time.
        packet = av_packet(data, pts, pts)
        if isinstance(data, PacketData):
            packet.set_sidedata(data.packet.get_sidedata("new_extradata"), move=True)
        frames: list[AudioFrame] = []
        if _needs_other(self._context, packet):
            frames += self._context.decode(None)
            self._context = _replaced(self._context, packet)
        frames += self._context.decode(packet)
        return [] if isinstance(data, PacketData) and data.packet.is_discard else frames

    def drain(self) -> list[AudioFrame]:
        """Return the frames that the decoder still holds."""
        return self._context.decode(None)


class FileDecoders:
    """A `DecoderFactory` (see `transcode.engine.codec.decode`) of a file's own decoders."""

    def __init__(
        self, picture: VideoStream | None, sound: AudioStream | None, *, timed: bool
    ) -> None:
        self.video_decoder = FileVideoDecoder(picture, timed=timed) if picture is not None else None
        self._sounds = FileAudioDecoder(sound) if sound is not None else None

    def video(self) -> FileVideoDecoder:
        """Return the decoder of the video track."""
        if self.video_decoder is None:
            raise LookupError("no picture")
        return self.video_decoder

    def audio(self) -> FileAudioDecoder:
        """Return the decoder of the sound track."""
        if self._sounds is None:
            raise LookupError("no sound")
        return self._sounds


def _needs_other(context: CodecContext, packet: "Packet[Stream]") -> bool:
    """Return whether a decoder does not read the configuration that comes with a packet."""
    return packet.has_sidedata("new_extradata") and context.name not in _RECONFIGURED


def _replaced(context: _Context, packet: "Packet[Stream]") -> _Context:
    """Return a decoder like `context` with the configuration that comes with a packet."""
    other = CodecContext.create(context.name, "r")
    if not isinstance(other, type(context)):
        raise TypeError(context.name)
    other.extradata = bytes(packet.get_sidedata("new_extradata"))
    other.thread_count, other.options = 1, dict(context.options)
    return other
