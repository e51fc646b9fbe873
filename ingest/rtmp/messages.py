"""Message types, parsed commands, and the bodies of the messages that the server sends.

Sources: RTMP 1.0, 5.4 (protocol control), 7.1 (types), 7.2 (commands), 7.1.7 (user control).
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.errors import MessageError
from ingest.rtmp.limits import Limits

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")

PEER_BANDWIDTH_DYNAMIC: Final = 2


class MessageType(IntEnum):
    """Message type ids (7.1; 5.4 for 1 to 6)."""

    SET_CHUNK_SIZE = 1
    ABORT = 2
    ACKNOWLEDGEMENT = 3
    USER_CONTROL = 4
    WINDOW_SIZE = 5
    PEER_BANDWIDTH = 6
    AUDIO = 8
    VIDEO = 9
    DATA_AMF3 = 15
    COMMAND_AMF3 = 17
    DATA = 18
    COMMAND = 20
    AGGREGATE = 22


class UserEvent(IntEnum):
    """The user control events that are used here (7.1.7)."""

    STREAM_BEGIN = 0
    PING = 6
    PONG = 7


class UserControl(msgspec.Struct, frozen=True):
    """A user control message; `event` may be one that `UserEvent` does not name."""

    event: int
    data: bytes


class CommandMessage(msgspec.Struct, frozen=True):
    """A command; `transaction` 0 expects no answer. `values` are its object and arguments.

    `repr` shows the name only, because arguments contain stream keys.
    """

    name: str
    transaction: float
    values: list[Amf]

    def __repr__(self) -> str:
        return f"CommandMessage({self.name!r}, {self.transaction!r}, ...)"

    __str__ = __repr__

    @property
    def object(self) -> dict[str, Amf]:
        """The command object; empty if there is none."""
        return _as_object(self.values[0]) if self.values else {}

    @property
    def argument(self) -> Amf:
        """The first argument after the command object; None if there is none."""
        return self.values[1] if len(self.values) > 1 else None


def _as_object(value: Amf) -> dict[str, Amf]:
    return value if isinstance(value, dict) else {}


def parse_command(kind: int, body: bytes, limits: Limits) -> CommandMessage:
    """Parse a command of either type: one of AMF3 is AMF0 after a byte of 0, which may be missing.

    Raises:
        RtmpError: it is no command, or its values are invalid.
    """
    has_format_byte = kind == MessageType.COMMAND_AMF3 and not body.startswith(b"\x02")
    values = amf0.decode(body[1:] if has_format_byte else body, limits)
    match values:
        case [str(name), bool() | str() | dict() | list(), *_]:
            raise MessageError(kind, "a transaction that is no number")
        case [str(name), float(transaction), *rest]:
            return CommandMessage(name, transaction, rest)
        case [str(name), *rest]:  # no transaction: it expects no answer
            return CommandMessage(name, 0.0, rest[1:])
        case _:
            raise MessageError(kind, "a command without a name")


def parse_user_control(body: bytes) -> UserControl:
    """Parse a user control message of at least 2 bytes, as the chunk reader guarantees."""
    return UserControl(_U16.unpack_from(body)[0], body[2:])


def user_control(event: UserEvent, data: bytes) -> bytes:
    """Return the body of a user control message."""
    return _U16.pack(event) + data


def word(value: int) -> bytes:
    """Return the body of a control message with one number, modulo 2**32."""
    return _U32.pack(value & 0xFFFF_FFFF)


def peer_bandwidth(window: int) -> bytes:
    """Return the body of SetPeerBandwidth with the limit type that servers send."""
    return _U32.pack(window) + bytes((PEER_BANDWIDTH_DYNAMIC,))


def command(name: str, transaction: float, *values: Amf) -> bytes:
    """Return the body of a command message (AMF0)."""
    return amf0.encode(name, transaction, *values)


def status(level: str, code: str, description: str) -> bytes:
    """Return the body of an onStatus command."""
    info: Amf = {"level": level, "code": code, "description": description}
    return command("onStatus", 0.0, None, info)
