"""The decoders that a file's container provides for its tracks, run on the calling thread."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import heapq
from collections.abc import Sequence
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

from media.ticks import VIDEO_SCALE
from media.track import AudioCodec, AudioTrack
from transcode.engine.codec.decode import (
    MOST_PIXELS,
    TIME_BASE,
    AudioDecoder,
    PacketData,
    av_packet,
)
from transcode.engine.input.container import credible_aspect, pixel_aspect
from transcode.engine.input.edited_parts import PartJoiner, SeamWatch
from transcode.engine.input.sound_pace import SoundPace
from transcode.engine.input.stereo_pair import ONE_SIDE, PairDecoder

# The decoders that read a new configuration where they find it beside a packet.
_RECONFIGURED: Final = ("h264", "hevc", "aac")

_FOREVER: Final = 1 << 62
_Context = TypeVar("_Context", AudioCodecContext, VideoCodecContext)


class FileVideoDecoder:
    """The file's own video decoder; `timed` is True if the packets have presentation times."""

    def __init__(self, stream: VideoStream, *, timed: bool) -> None:
        self._context = stream.codec_context
        self._context.thread_count = 1
        self._context.options = {"max_pixels": str(MOST_PIXELS)}
        self._aspects = _Aspects(stream)
        self._timed = timed
        self._times: list[int] = []  # of the packets inside the decoder, earliest first
        self._packets_in = self._pictures_out = 0
        self._joiner = PartJoiner()
        self._begins_part = False  # with the next frame
        self._seams = SeamWatch()
        self._is_drained = False

    @property
    def aspect(self) -> Fraction:
        """A pixel's width by its height, in the newest frame."""
        return self._aspects.newest

    def aspect_of(self, frame: VideoFrame) -> Fraction:
        """Return a pixel's width by its height in a frame that this decoder returned."""
        return self._aspects.of(frame.pts or 0)

    @property
    def all_failed(self) -> bool:
        """True if packets went in and no picture ever came out."""
        return self._packets_in > 0 and self._pictures_out == 0

    def decode(self, data: bytes, dts: int, pts: int) -> list[VideoFrame]:
        """Decode one access unit; after the last one, return all frames that are left."""
        frames: list[VideoFrame] = []
        if not isinstance(data, PacketData):
            return self._add(av_packet(data, dts, pts), frames)
        packet = data.packet
        packet.time_base, packet.dts, packet.pts = TIME_BASE, dts, pts
        for earlier in data.earlier:
            earlier.dts, earlier.pts = (earlier.dts or 0) + dts, (earlier.pts or 0) + pts
            with suppress(FFmpegError):  # what is damaged there is hardly shown
                frames += self._decode(earlier)
        frames = self._add(packet, frames)
        return frames + self._rest() if data.is_last else frames

    def _add(self, packet: "Packet[Stream]", frames: list[VideoFrame]) -> list[VideoFrame]:
        """Return `frames`, and those that decoding a packet adds."""
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
            frames += self._rest()
            self._context.flush_buffers()
            self._is_drained = False
            self._begins_part = True
        if _needs_other(self._context, packet):
            frames += self._rest()
            self._context, self._is_drained = _replaced(self._context, packet), False
        if not packet.is_discard:
            heapq.heappush(self._times, packet.pts or 0)
        try:
            decoded = self._context.decode(packet)
        except FFmpegError:
            if not frames:
                raise
            return frames
        finally:
            self._aspects.add_packet(packet.pts or 0, self._context.sample_aspect_ratio)
        held = self._context.reorder_depth + self._context.delay
        return frames + self._stamped(decoded, held=held)

    def _rest(self) -> list[VideoFrame]:
        with suppress(FFmpegError):  # one of them is damaged; decoding begins anew after them
            return self.drain()
        return []

    def drain(self) -> list[VideoFrame]:
        """Return the frames that the decoder still holds."""
        if self._is_drained:
            return []
        self._is_drained = True
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
                own, frame.pts = frame.pts, self._joined(frame.pts)
                self._aspects.add_frame(own, frame.pts)
        return frames

    def _joined(self, pts: int) -> int:
        """Return when a frame is shown: after those of the part before, where an edit list goes on.

        With B-frames, the library gives the first pictures of a part the times of the last ones.
        """
        if self._begins_part:
            self._joiner.begin(pts)
            self._begins_part = False
        return self._joiner.add(pts)


class _Aspects:
    """The aspects of a track's pixels, which may change with any keyframe.

    A frame does not say its own, and the decoder that of the newest packet. So the changes are
    noted by the packets' times, and found again by the frames'.
    """

    def __init__(self, stream: VideoStream) -> None:
        self._declared = stream.codec_context.sample_aspect_ratio
        self._of_file = pixel_aspect(stream)  # the container may know better than the codec
        self._coded = self._declared
        self._changes = [(-_FOREVER, self._of_file)]
        self._shown = [(-_FOREVER, self._of_file)]

    @property
    def newest(self) -> Fraction:
        """That of the newest frame."""
        return self._shown[-1][1]

    def of(self, shown: int) -> Fraction:
        """Return that of the frame that is shown at a time."""
        return _at(self._shown, shown)

    def add_packet(self, pts: int, coded: Fraction | None) -> None:
        """Add a packet, and the aspect that the decoder has after it."""
        if coded != self._coded:
            self._coded = coded
            aspect = self._of_file if coded == self._declared else credible_aspect(coded)
            self._changes.append((pts, aspect))

    def add_frame(self, pts: int, shown: int) -> None:
        """Add a frame by the time of its packet and that at which it is shown."""
        aspect = _at(self._changes, pts)
        if aspect != self.newest:
            self._shown.append((shown, aspect))


def _at(changes: list[tuple[int, Fraction]], time: int) -> Fraction:
    """Return the aspect of the newest change up to a time; there is one before all times."""
    return next(aspect for begin, aspect in reversed(changes) if begin <= time)


class FileAudioDecoder:
    """The file's own sound decoder."""

    def __init__(self, stream: AudioStream) -> None:
        self._pace = SoundPace()
        self._context = stream.codec_context
        self._context.thread_count = 1
        if self._context.layout.name in ONE_SIDE:
            self._context.layout = "mono"  # a channel alone is heard on both sides

    def decode(self, data: bytes, pts: int | None) -> list[AudioFrame]:
        """Decode one packet; what an edit list leaves out only prepares the decoder."""
        # Not the packet itself: the decoder would count the samples to skip in the file's own time.
        packet = av_packet(data, pts, pts)
        if isinstance(data, PacketData):
            packet.set_sidedata(data.packet.get_sidedata("new_extradata"), move=True)
        frames: list[AudioFrame] = []
        if _needs_other(self._context, packet):
            with suppress(FFmpegError):
                frames += self._context.decode(None)
            self._context = _replaced(self._context, packet)
        frames += self._context.decode(packet)
        if isinstance(data, PacketData):
            for frame in frames:
                at = pts if frame.pts is None else frame.pts
                if at is not None:
                    own = frame.sample_rate
                    frame.sample_rate = self._pace.rate(at, frame.samples, own)
            return [] if data.packet.is_discard else frames
        return frames

    def drain(self) -> list[AudioFrame]:
        """Return the frames that the decoder still holds."""
        return self._context.decode(None)


class FileDecoders:
    """A `DecoderFactory` (see `transcode.engine.codec.decode`) of a file's own decoders.

    `sounds` are its track of sound, or the left and the right one.
    """

    def __init__(
        self, picture: VideoStream | None, sounds: Sequence[AudioStream], *, timed: bool
    ) -> None:
        self.video_decoder = FileVideoDecoder(picture, timed=timed) if picture is not None else None
        self._sound = _sound_decoder(sounds)

    def video(self) -> FileVideoDecoder:
        """Return the decoder of the video track."""
        if self.video_decoder is None:
            raise LookupError("no picture")
        return self.video_decoder

    def audio(self) -> AudioDecoder:
        """Return the decoder of the sound."""
        if self._sound is None:
            raise LookupError("no sound")
        return self._sound


def sound_track(sound: AudioStream) -> AudioTrack:
    """Return a track of sound as the live engine knows it, beside the file's own decoder."""
    context = sound.codec_context
    return AudioTrack(
        codec=AudioCodec.AAC,  # does not matter
        config=b"",
        rate=context.sample_rate or 0,
        channels=context.channels or 0,
        scale=VIDEO_SCALE,
    )


def _sound_decoder(sounds: Sequence[AudioStream]) -> AudioDecoder | None:
    decoders = {each.index: FileAudioDecoder(each) for each in sounds}
    if len(sounds) > 1:
        return PairDecoder(decoders, sounds[0].codec_context.sample_rate)
    return next(iter(decoders.values()), None)


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
