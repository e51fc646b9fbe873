"""What an engine and its parent say to each other, and how it is framed.

Sans-IO. A frame is a 4-byte big-endian length and a MessagePack map of one message; the engine
reads `Order`s from its standard input and writes `Report`s to its standard output. The dialogue:

    parent: Begin, (Packet | Rungs)..., Finish     one epoch = one source with one set of tracks
    engine: Prepared, InitSection..., (Part..., Segment)..., Finished
    parent: Begin, ...                     the next epoch of the same run
    parent: Begin (splice), Packet...      another source instead of that one, in the same epoch
    engine: Spliced                        or Finished, Prepared..., where it cannot go on in it
    parent: Slate, Reach...                nobody is on air, until a Begin (splice) or Finish
    parent: end of input                   the engine finishes what it has and exits with 0

An engine that reads a file (probe, video, poster) gets no orders: the file is its standard input,
what is wanted stands in its arguments (`Make`, as JSON), and it reports `Probed`, `Poster`s, or one
epoch like the above; or it says `Refused`.

Epochs of a run share sequence numbers and the output clock; every epoch after a run's first begins
with a discontinuity. Orders and `Progress` name a source by its own epoch, segments by the one that
was prepared for them.
"""

import struct
from types import UnionType
from typing import Final, Generic, TypeVar

import msgspec

from media.hls.segment import InitSection, Part, Segment
from media.ladder import Ladder
from media.track import AudioTrack, VideoTrack
from transcode.protocol.file_messages import Ready, Subtitles, Surveyed

__all__ = [
    "MAX_FRAME",
    "Begin",
    "Finish",
    "Finished",
    "Make",
    "Order",
    "Packet",
    "Poster",
    "Posters",
    "Prepared",
    "Previews",
    "Probed",
    "Progress",
    "Reach",
    "Refused",
    "Report",
    "Rungs",
    "Slate",
    "Spliced",
    "TakenOver",
    "Trouble",
    "WireError",
    "WireReader",
    "pack",
]

MAX_FRAME: Final = (
    64 << 20
)  # a segment's part at 160 Mbit/s for 3 s; RTMP messages are below 16 MiB
_LENGTH: Final = struct.Struct(">I")


class WireError(Exception):
    """The other side broke the framing: ours to mend, so the engine is ended."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """A source starts (again): what it sends and what to make of it.

    `epoch` counts the run's sources from 0. `ladder` is None where there is no picture (audio
    only). `start` is where its first frame belongs on the output clock (ticks of 90 000 a second);
    the engine never starts before the end of what it has made itself. `sequence` is the number of
    the next segment and `inits` the numbers of the next init section by rendition (absent: 0): both
    count from what the run has published and matter only in an engine's first epoch.
    `reuse` allows the source's own packets as the top rung. `discontinuity` marks the first
    segment. `cut` is the least length of a segment and `longest` the greatest, `part` the target of
    a part, all in ticks of 90 000 a second. `off` names the rungs that are not to be made (see
    `Rungs`). `poster` is the time between two posters of a live source, 0 for none, in those ticks.
    `splice` says that no `Finish` came before: it replaces the source that is on, without a seam
    where that can be.
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
    off: tuple[str, ...] = ()
    poster: int = 0
    splice: bool = False


class Packet(msgspec.Struct, frozen=True, kw_only=True, tag="packet", gc=False):
    """One access unit of the epoch's video or audio track; ticks are the track's."""

    video: bool
    dts: int
    pts: int
    key: bool
    data: bytes


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """The epoch's source has ended: make everything out of what was sent, close the segment."""


class Slate(msgspec.Struct, frozen=True, kw_only=True, tag="slate"):
    """The epoch's source has ended, and viewers get its last picture, then a slate, silent.

    `picture` is a JPEG, None the card that the engine draws. It lasts until a `Begin` or `Finish`;
    an epoch that was begun without a source has it from its beginning.
    """

    picture: bytes | None = None


class Reach(msgspec.Struct, frozen=True, kw_only=True, tag="reach"):
    """Show the slate up to `elapsed`, in ticks of 90 000 a second from where it began."""

    elapsed: int


class Rungs(msgspec.Struct, frozen=True, kw_only=True, tag="rungs"):
    """From the next cut on make all rungs but those in `off`; it replaces the order before it.

    A rung that is off has `gap` segments, in step with the others. The source's own packets and the
    sound are never off; `off` holds for the epochs that follow until another order comes.
    """

    off: tuple[str, ...]


Order = Begin | Packet | Rungs | Slate | Reach | Finish


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """The epoch's renditions are set; `reused` is the one made of the source's own packets."""

    epoch: int
    names: tuple[str, ...]
    reused: str | None


class Spliced(msgspec.Struct, frozen=True, kw_only=True, tag="spliced"):
    """The source of that epoch goes on where the one before it ended, without a seam.

    Segments keep the number that they had. `reused` is as in `Prepared`.
    """

    epoch: int
    reused: str | None


class TakenOver(msgspec.Struct, frozen=True, kw_only=True, tag="taken over"):
    """From here on the encoder makes the epoch's top rung: the source's keyframes stayed away.

    `for_good` says that its packets are of no use whenever keyframes come: they show another
    picture than their configuration says, or one that players would have to turn.
    """

    epoch: int
    for_good: bool = False


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The epoch is out, whole; `end` is where its output ended (ticks of 90 000 a second)."""

    epoch: int
    end: int
    frames_in: int
    frames_out: dict[str, int]


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """About once a second: the newest media taken in and given out, in source milliseconds.

    `frames` counts the pictures taken in this epoch. `rung_cpu_ms` is the CPU time that each rung's
    encoder has used in this engine's life, by name; `cpu_ms` is the whole process's.
    """

    epoch: int
    taken: int
    made: int
    frames: int
    cpu_ms: int
    memory_bytes: int
    rung_cpu_ms: dict[str, int] = {}


class Trouble(msgspec.Struct, frozen=True, kw_only=True, tag="trouble"):
    """Something an operator may ask about; the engine goes on unless it exits after it.

    `what` is a fixed phrase (say "packet not decoded"), `detail` the library's words.
    """

    what: str
    detail: str
    count: int = 1


class Probed(msgspec.Struct, frozen=True, kw_only=True, tag="probed"):
    """What a file is, found by reading it.

    `length_us` is 0 where even the file's end does not tell. `width` and `height` are of the
    upright picture with square pixels, 0 where there is none; `codec_width` and `codec_height` of
    the coded one. `rotation` is in degrees as the decoder has it, `rate` in frames per 1000 s (0:
    unknown). `subtitles` is how many tracks of them there are, of whatever kind.
    """

    container: str
    length_us: int
    width: int = 0
    height: int = 0
    codec_width: int = 0
    codec_height: int = 0
    rotation: int = 0
    rate: int = 0
    video_codec: str | None = None
    audio_codec: str | None = None
    subtitles: int = 0


class Make(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be made of a file: renditions, or posters of their sizes.

    `ladder` is None where there is no picture. `reuse` allows its own packets as the top rung.
    `length_us` is how long it is in microseconds, 0 where that is not known yet.
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
    """Small pictures of a film, `times` in milliseconds from its first picture, rising.

    They stand in JPEGs, `per_sheet` in each, in rows of `columns`; each is `width` x `height`.
    """

    width: int
    height: int
    columns: int
    per_sheet: int
    times: tuple[int, ...]
    sheets: tuple[bytes, ...]


class Posters(msgspec.Struct, frozen=True, kw_only=True, tag="posters"):
    """One still of a live source in all its sizes, largest first.

    `poor` says that it is black or plain, and that nothing better has been seen in this run.
    """

    posters: tuple[Poster, ...]
    poor: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """Nothing can be made of the file, now or later: a sentence for its owner. It is the last."""

    reason: str


M = TypeVar("M")
Report = (
    Prepared
    | InitSection
    | Part
    | Segment
    | Spliced
    | TakenOver
    | Finished
    | Progress
    | Trouble
    | Probed
    | Poster
    | Posters
    | Previews
    | Refused
    | Surveyed
    | Ready
    | Subtitles
)

_encoder = msgspec.msgpack.Encoder()


def pack(message: Order | Report) -> bytes:
    """Return a message with its length in front, ready to be written."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class WireReader(Generic[M]):
    """Cuts a byte stream into messages of one direction: `WireReader(Order)` or `(Report)`."""

    def __init__(self, kind: type[M] | UnionType) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kind)  # pyright: ignore[reportArgumentType]  # a union is no type[M] to pyright, though msgspec takes it
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """Take bytes in any portion and return the messages that are whole by now.

        Raises:
            WireError: a frame is longer than `MAX_FRAME` or is no message of this direction.
        """
        self._buffer += data
        found: list[M] = []
        place = 0
        with memoryview(self._buffer) as view:
            while place + _LENGTH.size <= len(view):
                (length,) = _LENGTH.unpack_from(view, place)
                if length > MAX_FRAME:
                    raise WireError(f"a frame of {length} bytes")
                end = place + _LENGTH.size + length
                if end > len(view):
                    break
                try:
                    found.append(self._decoder.decode(view[place + _LENGTH.size : end]))
                except msgspec.MsgspecError as error:
                    raise WireError(str(error)) from error
                place = end
        del self._buffer[:place]
        return found
