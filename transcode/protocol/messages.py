"""The messages between an engine and its parent, and their framing.

Sans-IO. A frame is a 4-byte big-endian length and one message as a MessagePack map. A live engine
reads `EngineOrder`s from its standard input and writes `EngineReport`s to its standard output:

    parent: Begin, (Packet | LeaveOut)..., Finish    one epoch = one source with one set of tracks
    engine: Prepared, EpochStart, InitSection..., (SegmentStart, Part..., Segment)..., EpochFinished
    parent: Begin, ...                    the next epoch of the same run
    parent: Begin (splice), Packet...     another source replaces that one, in the same epoch
    engine: Spliced                       or EpochFinished, Prepared..., if that is impossible
    parent: Begin (continues), Packet...  the same pictures go on, with other sound or another clock
    engine: Spliced
    parent: ReuseSource                   its own packets make the top rung again from here on
    engine: Spliced
    parent: ShowSlate, ExtendSlate...     no source is on air, until a Begin (splice) or Finish
    parent: end of input                  the engine finishes its work and exits with 0

An engine that works on a file (probe, asset, span, poster, ...) gets no orders: the file is its
standard input, and the task is JSON in its arguments. It reports `Probed`, `Poster`s, or one epoch
as above; or `Refused`. `BytesRead` comes about once a second while it reads. An engine that makes
thumbnails of a recording gets keyframes instead of a file, and reports `Previews` and `Poster`s.

The epochs of a run share sequence numbers and the output clock; every epoch after the first begins
with a discontinuity. Orders and `Progress` name a source by its own epoch, segments by the epoch
that was prepared for them.
"""

import struct
from types import UnionType
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import Ladder
from media.sample_times import MOST_SAMPLES
from media.track import AudioTrack, VideoTrack
from transcode.protocol.file_messages import (
    Keyframe,
    PosterKeyframe,
    Ready,
    SubtitleTrack,
    Surveyed,
)
from transcode.protocol.watch_messages import Compared, Judged, WatchOrder

# A segment's part at 160 Mbit/s for 3 s; RTMP messages are below 16 MiB.
MAX_FRAME: Final = 64 << 20
_LENGTH: Final = struct.Struct(">I")


# The `Trouble` of an engine that could not read its file: what it made of the rest is unusable.
FILE_NOT_READ: Final = "file not read"


class WireError(Exception):
    """The other side broke the protocol: a bug of ours, or a file controls it. It is ended."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """A source starts: its tracks, and the renditions to make of them.

    `epoch` counts the run's sources from 0. `ladder` is None if there is no picture. `start` is
    where the first frame belongs on the output clock (ticks of 90 000 a second); the engine never
    starts before the end of its own output. `sequence` is the number of the next segment, and
    `inits` holds the numbers of the next init sections by rendition (absent: 0); both continue what
    the run has published and matter in an engine's first epoch alone. `reuse` allows the source's
    own packets as the top rung. `discontinuity` marks the first segment. `cut` is the minimum
    length of a segment, `longest` the maximum, and `part` the wanted part target (see `Prepared`),
    in ticks of 90 000 a second. `low_latency`: the encoders hold few pictures back, although that
    costs quality. `off` names the rungs that are not to be made (see `LeaveOut`). `poster` is the
    time between two posters of a live source in those ticks, 0 for none. With `splice`, no `Finish`
    came before: the source replaces the present one, seamlessly if possible.

    `preroll` is how many packets from a keyframe on lead up to the source's beginning in the middle
    of a GOP: they are decoded and not shown, and their times do not count. The source's own packets
    make no rendition then. With `continues`, neither `Finish` nor a slate came before, and the next
    picture follows the last one of the present source: only its sound differs, or, with
    `new_clock`, its clock has restarted.

    With `show_from`, the source begins with a keyframe, but is shown from its picture with that
    time on, in its own ticks: what is before leads up to it, and `start` is that picture's place.
    `show_until` is the time of the first picture of the source before that is not shown, in the
    ticks of that one; None: all of them are.
    """

    epoch: int
    video: VideoTrack | None
    audio: AudioTrack | None
    ladder: Ladder | None
    start: int
    sequence: int
    inits: dict[str, int]
    discontinuity: bool
    reuse: bool = True
    cut: int = 2 * 90_000
    longest: int = 4 * 90_000
    part: int = 45_000
    low_latency: bool = False
    off: tuple[str, ...] = ()
    poster: int = 0
    splice: bool = False
    preroll: int = 0
    continues: bool = False
    new_clock: bool = False
    show_from: int | None = None
    show_until: int | None = None


class Packet(msgspec.Struct, frozen=True, kw_only=True, tag="packet", gc=False):
    """One access unit of the epoch's video or audio track; times are in the track's ticks.

    `came_us` is when it came, in microseconds since the Unix epoch; 0 if it is of a file.
    """

    video: bool
    dts: int
    pts: int
    key: bool
    data: bytes
    came_us: int = 0


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """The epoch's source has ended: encode all of its packets and close the segment."""


class ShowSlate(msgspec.Struct, frozen=True, kw_only=True, tag="slate"):
    """The epoch's source has ended: show its last picture, then a slate, without sound.

    `picture` is a JPEG, or None for the card that the engine draws. The slate lasts until a `Begin`
    or `Finish`. An epoch that began without a source shows the slate from its beginning.
    """

    picture: bytes | None = None


class ExtendSlate(msgspec.Struct, frozen=True, kw_only=True, tag="reach"):
    """Show the slate until `elapsed`, in ticks of 90 000 a second from where it began."""

    elapsed: int


class ReuseSource(msgspec.Struct, frozen=True, kw_only=True, tag="reuse"):
    """The source's keyframes are regular: its own packets make the top rung from the next one on.

    It is ignored if they cannot.
    """


class LeaveOut(msgspec.Struct, frozen=True, kw_only=True, tag="rungs"):
    """From the next cut on make all rungs except those in `off`; replaces the previous such order.

    A rung that is off has `gap` segments, in step with the other rungs. The source's own packets
    and the sound are never off. `off` also holds for later epochs, until the next such order.
    """

    off: tuple[str, ...]


EngineOrder = Begin | Packet | LeaveOut | ReuseSource | ShowSlate | ExtendSlate | Finish


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """The epoch's renditions are known; `reused` is the one made of the source's own packets.

    `part` is the epoch's part target in ticks of 90 000 a second, for all renditions: a whole
    number of the source's frames, near to the one that was wanted.
    """

    epoch: int
    names: tuple[str, ...]
    reused: str | None
    part: int = 45_000


class Spliced(msgspec.Struct, frozen=True, kw_only=True, tag="spliced"):
    """The source of that epoch continues seamlessly where the one before it ended.

    Segments keep the epoch's number. `reused` is as in `Prepared`.
    """

    epoch: int
    reused: str | None


class Placed(msgspec.Struct, frozen=True, kw_only=True, tag="placed"):
    """The time 0 of that epoch's source is at `offset` on the output clock, from here on.

    In ticks of 90 000 a second, of the track that leads: the picture, if there is one.
    """

    epoch: int
    offset: int


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, tag="taken over"):
    """From here on the encoder makes the epoch's top rung: the source sends no more usable
    keyframes.

    With `for_good`, its packets stay unusable even if keyframes return: they show a picture that
    differs from their configuration, or one that players would have to rotate.
    """

    epoch: int
    for_good: bool = False


class SoundMoved(msgspec.Struct, frozen=True, kw_only=True, tag="sound moved"):
    """The time stamps of the source's sound are so far from those of its picture that the sound is
    played with the picture that arrives with it.

    `offset_ms` is how far they are ahead (below 0: behind); 0 means that they fit again, after a
    source had been moved.
    """

    epoch: int
    offset_ms: int


class EpochFinished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The epoch's output is complete; `end` is where it ended (ticks of 90 000 a second)."""

    epoch: int
    end: int
    frames_in: int
    frames_out: dict[str, int]


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """About once a second: the newest media read (`taken`) and written (`made`), in source
    milliseconds.

    `frames` counts the pictures read in this epoch. `rung_cpu_ms` is the CPU time that each rung's
    encoder has used in this engine's life, by name; `cpu_ms` is that of the whole process.
    """

    epoch: int
    taken: int
    made: int
    frames: int
    cpu_ms: int
    memory_bytes: int
    rung_cpu_ms: dict[str, int] = {}


class BytesRead(msgspec.Struct, frozen=True, kw_only=True, tag="read"):
    """About once a second while an engine reads its file: it works, even if it makes nothing yet.

    `total` is the bytes that this pass through the file has read so far, some of them repeatedly.
    """

    total: int


class Trouble(msgspec.Struct, frozen=True, kw_only=True, tag="trouble"):
    """A problem that an operator may want to know about; it does not stop the engine.

    `what` is a fixed phrase (such as "picture not decoded"), `detail` the library's message.
    """

    what: str
    detail: str
    count: int = 1


class Probed(msgspec.Struct, frozen=True, kw_only=True, tag="probed"):
    """The facts about a file, as found by reading it.

    `length_us` is 0 if even the end of the file does not reveal it; it is `estimated` if the file
    does not claim it, but its size and bit rate suggest it. `width` and `height` are those
    of the upright picture with square pixels, 0 if there is none; `codec_width` and `codec_height`
    those of the coded one. `rotation` is in degrees as the decoder reports it, `rate` in frames per
    1000 s (0: unknown). `subtitles` counts the subtitle tracks of any kind.
    """

    container: str
    length_us: int
    estimated: bool = False
    width: int = 0
    height: int = 0
    codec_width: int = 0
    codec_height: int = 0
    rotation: int = 0
    rate: int = 0
    video_codec: str | None = None
    audio_codec: str | None = None
    subtitles: int = 0


class FileOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to make of a file: renditions, or posters of their sizes.

    `ladder` is None if there is no picture. `reuse` allows the file's own packets as the top rung.
    `length_us` is the length in microseconds, 0 if it is not known yet.
    """

    ladder: Ladder | None
    reuse: bool = False
    length_us: int = 0


class Poster(msgspec.Struct, frozen=True, kw_only=True, tag="poster"):
    """A still of a file or a stream as JPEG, fitted into the box of that label."""

    label: str
    width: int
    height: int
    data: bytes


class Previews(msgspec.Struct, frozen=True, kw_only=True, tag="previews"):
    """Thumbnails of an asset; `times` are milliseconds from its first picture, rising.

    They are in JPEG sheets of `per_sheet` thumbnails each, in rows of `columns`; each thumbnail is
    `width` x `height` pixels.
    """

    width: int
    height: int
    columns: int
    per_sheet: int
    # A longer list is refused before its numbers are made.
    times: Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_SAMPLES)]
    sheets: tuple[bytes, ...]


class Posters(msgspec.Struct, frozen=True, kw_only=True, tag="posters"):
    """One still of a live source in all its sizes, largest first.

    `poor` is True if it is dark or plain and nothing better has been seen in this run.
    """

    posters: tuple[Poster, ...]
    poor: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The file cannot be used, now or later: a sentence for its owner. The last report."""

    reason: str


M = TypeVar("M")
EngineReport = (
    Prepared
    | EpochStart
    | InitSection
    | SegmentStart
    | GapStart
    | Part
    | Segment
    | Spliced
    | Placed
    | TakenOver
    | SoundMoved
    | EpochFinished
    | Progress
    | BytesRead
    | Trouble
    | Probed
    | Poster
    | Posters
    | Previews
    | Refused
    | Surveyed
    | Ready
    | SubtitleTrack
    | Compared
    | Judged
)

_encoder = msgspec.msgpack.Encoder()


def pack(
    *messages: EngineOrder | WatchOrder | Keyframe | PosterKeyframe | EngineReport,
) -> bytearray:
    """Return messages, each with its length in front."""
    frames = bytearray()
    for message in messages:
        at = len(frames)
        frames += bytes(_LENGTH.size)
        _encoder.encode_into(message, frames, -1)
        _LENGTH.pack_into(frames, at, len(frames) - at - _LENGTH.size)
    return frames


class WireReader(Generic[M]):
    """Splits a byte stream into the messages of one direction, orders or reports.

    No frame may be longer than `longest`, in bytes.
    """

    def __init__(self, kind: type[M] | UnionType, *, longest: int = MAX_FRAME) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kind)  # pyright: ignore[reportArgumentType]  # a union is no type[M] to pyright, though msgspec takes it
        self._longest = longest
        self._buffer = bytearray()

    def add(self, data: bytes | bytearray) -> None:
        """Add bytes, in portions of any size."""
        self._buffer += data

    def next(self) -> M | None:
        """Return the next message if it is complete, else None.

        Raises:
            WireError: it is too long, or no message of this direction.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._longest:
            raise WireError(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if end > len(self._buffer):
            return None
        try:
            with memoryview(self._buffer) as view, view[_LENGTH.size : end] as frame:
                message = self._decode(frame)
        except msgspec.MsgspecError as error:
            raise WireError(str(error)) from error
        del self._buffer[:end]  # moves nothing: the buffer begins later
        return message

    def feed(self, data: bytes | bytearray) -> list[M]:
        """Add bytes; return the messages that are complete.

        Raises:
            WireError: a message is too long, or none of this direction.
        """
        self.add(data)
        messages: list[M] = []
        while (message := self.next()) is not None:
            messages.append(message)
        return messages

    def _decode(self, frame: memoryview) -> M:
        return self._decoder.decode(frame)
