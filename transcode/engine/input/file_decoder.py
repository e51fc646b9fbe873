"""The decoders that a file's container provides for its tracks, run on the calling thread."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import heapq
from fractions import Fraction

from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from transcode.engine.codec.decode import MOST_PIXELS, av_packet
from transcode.engine.input.container import pixel_aspect

__all__ = ["FileAudioDecoder", "FileDecoders", "FileVideoDecoder"]


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
        self._packets_in += 1
        heapq.heappush(self._times, pts)
        frames = self._context.decode(av_packet(data, dts, pts))
        return self._stamped(frames, held=self._context.reorder_depth + self._context.delay)

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
        return frames


class FileAudioDecoder:
    """The file's own sound decoder."""

    def __init__(self, stream: AudioStream) -> None:
        self._context = stream.codec_context
        self._context.thread_count = 1

    def decode(self, data: bytes, pts: int) -> list[AudioFrame]:
        """Decode one packet."""
        return self._context.decode(av_packet(data, pts, pts))

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
