"""What two hosts send each other about the publishers that one relays to the other.

Each message is in MessagePack, and is sent as a frame: a length of four bytes, big-endian, which
does not count itself, then as many bytes. `number` is that of a relayed session. The relaying host
numbers the sessions of a connection; each number is higher than the one before. Packets belong to
the newest track of their kind, as in an RTMP session, so that a decoder configuration is sent once.
Sans-IO.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Self

import msgspec

from ingest.stream.ports import Grant
from ingest.stream.slot_session import CloseReason
from media.run_policy import resolve
from media.track import Track

VERSION: Final = 1

HEADER_BYTES: Final = 4
# An RTMP message has at most 16 MiB (its length has 24 bits), and so has a packet; a decoder
# configuration and the fields around it are a few hundred bytes.
MAX_FRAME_BYTES: Final = (16 << 20) + (4 << 10)
MAX_AGE_MS: Final = 60_000  # a relaying host keeps media of 15 s, or of one long GOP
_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_AGE_MS)]
_Text = Annotated[str, msgspec.Meta(max_length=1024)]
_Ticks = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class RelayProtocolError(Exception):
    """The other host broke the protocol: the connection must be closed."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The first message of each side; another `version` ends the connection."""

    version: int


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A sign of life, when there was nothing else to send."""


# -- from the relaying host to the owner ----------------------------------------------------------


class RelayedGrant(Grant, frozen=True, kw_only=True):
    """A grant with what version 0.2 reads, and sends alone: it sends no `run`, and ignores it."""

    record: bool = False
    keep_days: int = 30
    low_latency: bool = True
    dvr_seconds: float = 0.0

    @classmethod
    def of(cls, grant: Grant) -> Self:
        """Return a grant as it is sent."""
        run = grant.run
        return cls(
            **msgspec.structs.asdict(grant),
            record=run.recording.enabled,
            keep_days=run.recording.keep_days,
            low_latency=run.is_low_latency,
            dvr_seconds=run.dvr_seconds,
        )

    def received(self) -> Grant:
        """Return the grant that was sent; a setting that its sender does not know has its default.

        What version 0.2 sends is the same in `run` where that was sent.
        """
        run = resolve(self.run)
        failover = msgspec.structs.replace(
            run.failover,
            mode=self.policy.mode.value,
            return_seconds=self.policy.return_seconds,
            reconnect_seconds=self.reconnect_seconds,
            goodbye_seconds=self.goodbye_seconds,
        )
        recording = msgspec.structs.replace(
            run.recording, enabled=self.record, keep_days=self.keep_days
        )
        values = {field: getattr(self, field) for field in Grant.__struct_fields__}
        values["run"] = msgspec.structs.replace(
            run,
            failover=failover,
            recording=recording,
            latency="low" if self.low_latency else "normal",
            dvr_seconds=self.dvr_seconds,
        )
        return Grant(**values)


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Begin a session: an encoder at the address `peer` has a grant."""

    number: _Number
    grant: RelayedGrant
    peer: _Text


class RelayedTrack(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A new decoder configuration, which arrived `age_ms` ago."""

    number: _Number
    age_ms: _Milliseconds
    track: Track


class RelayedPacket(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A packet of the newest track of its kind (see `media.packet.MediaPacket`).

    It arrived at the relaying host `age_ms` before it was sent.
    """

    number: _Number
    age_ms: _Milliseconds
    video: bool
    dts: _Ticks
    pts: _Ticks
    key: bool
    data: bytes


class PartReceived(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Some of a packet's bytes arrived, but not yet the last.

    With an `unusable`, a packet arrived that cannot be used, for that cause: of `video` or audio.
    With `announced`, no packet arrived, but the announcement of a picture. Hosts of version 0.2
    send no such fields, and ignore them.
    """

    number: _Number
    video: bool = False
    unusable: _Text = ""
    announced: bool = False


class RelayedJump(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The encoder's clock restarted."""

    number: _Number


class Close(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The session has ended (see `PublisherSession.close`)."""

    number: _Number
    goodbye: bool
    reason: CloseReason | None


# -- from the owner to the relaying host ----------------------------------------------------------


class Attached(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The session has its slot, in an ownership of that generation."""

    number: _Number
    generation: _Number


class AttachRefused(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The session has no slot: another encoder is sending (`occupied`), or this is not the owner.

    In the second case the relaying host searches for the owner again.
    """

    number: _Number
    occupied: bool
    reason: _Text


class Disconnect(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """The session has ended here: disconnect the encoder, or find its new owner if it `moved`."""

    number: _Number
    moved: bool
    reason: _Text


class Stored(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Media that arrived until `age_ms` ago are stored or in Redis, and survive the owner."""

    number: _Number
    age_ms: _Milliseconds


Message = (
    Hello
    | Ping
    | Attach
    | RelayedTrack
    | RelayedPacket
    | PartReceived
    | RelayedJump
    | Close
    | Attached
    | AttachRefused
    | Disconnect
    | Stored
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Message)


def age_in_ms(seconds: float) -> int:
    """Return an age as messages carry it: from 0 to `MAX_AGE_MS`."""
    return min(max(0, round(seconds * 1000)), MAX_AGE_MS)


def encode(message: Message) -> bytes:
    """Return a message as a frame."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES) + body


def decode(frame: bytes) -> Message:
    """Return the message in a frame's content.

    Raises:
        RelayProtocolError: it is not a message.
    """
    try:
        message = _decoder.decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RelayProtocolError(f"no message: {error}") from error
    if isinstance(message, RelayedTrack) and message.track.scale < 1:
        raise RelayProtocolError("a track without a time base")
    return message


class FrameReader:
    """Cuts what is received into frames; holds at most one that is not complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Yield the contents of the frames that `data` completes.

        Raises:
            RelayProtocolError: a frame is longer than `MAX_FRAME_BYTES`.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER_BYTES:
                begin = start + HEADER_BYTES
                length = int.from_bytes(buffer[start:begin])
                if length > MAX_FRAME_BYTES:
                    raise RelayProtocolError(f"a frame of {length} bytes")
                if len(buffer) - begin < length:
                    break
                start = begin + length
                yield bytes(memoryview(buffer)[begin:start])
        finally:
            del buffer[:start]
