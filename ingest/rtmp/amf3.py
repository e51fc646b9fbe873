"""AMF3 values, as embedded in AMF0 after the marker 0x11: those that encoders send.

Decoding only: answers are always AMF0. Nulls, booleans, numbers, strings and flat objects become
Python values as in `amf0`; integers are floats like all numbers. All else (dates, XML, arrays,
vectors, dictionaries, objects within objects or that write themselves) is an error.
Any bytes give values or `AmfError` within the bounds of the cursor.
Source: Action Message Format AMF 3 (Adobe, 2013), sections 1.3 and 3.
"""

import struct
from typing import Final

import msgspec

from ingest.rtmp.amf import Amf, AmfCursor

_DOUBLE: Final = struct.Struct(">d")
_INLINE: Final = 1  # the lowest bit of a length: a value follows, not a reference
_SIGN: Final = 1 << 28
_TRUE: Final = 0x03
_OBJECT: Final = 0x0A


class _Traits(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    dynamic: bool


class Amf3Reader:
    """Reads AMF3 values at a cursor; one reader for a message, whose values share references."""

    def __init__(self, cursor: AmfCursor) -> None:
        self._cursor = cursor
        self._strings: list[str] = []
        self._traits: list[_Traits] = []

    def value(self) -> Amf:
        """Read the next value.

        Raises:
            AmfError: it is malformed, truncated, of another kind, or exceeds a limit.
        """
        self._cursor.count_values(1)
        marker = self._cursor.read(1)[0]
        return self._object() if marker == _OBJECT else self._simple(marker)

    def _simple(self, marker: int) -> Amf:
        match marker:
            case 0x00 | 0x01:  # undefined, null
                return None
            case 0x02 | 0x03:
                return marker == _TRUE
            case 0x04:
                return self._integer()
            case 0x05:
                (number,) = _DOUBLE.unpack(self._cursor.read(8))
                return number
            case 0x06:
                return self._string()
            case _:
                raise self._cursor.error(f"AMF3 marker {marker:#04x}")

    def _integer(self) -> float:
        """Read a signed integer of 29 bits (3.6)."""
        number = self._u29()
        return float(number - 2 * _SIGN if number & _SIGN else number)

    def _string(self) -> str:
        """Read a string, or a reference to an earlier one (3.8)."""
        length = self._u29()
        if not length & _INLINE:
            index = length >> 1
            if index >= len(self._strings):
                raise self._cursor.error("a reference to no string")
            return self._strings[index]
        text = self._cursor.read_text(length >> 1)
        if text:
            self._strings.append(text)
        return text

    def _object(self) -> Amf:
        """Read an object whose values are simple (3.12)."""
        head = self._u29()
        if not head & _INLINE:
            raise self._cursor.error("a reference to an object")
        traits = self._traits_of(head >> 1)
        values = {name: self._member() for name in traits.names}
        if traits.dynamic:
            while name := self._string():
                values[name] = self._member()
        return values

    def _member(self) -> Amf:
        self._cursor.count_values(1)
        return self._simple(self._cursor.read(1)[0])

    def _traits_of(self, head: int) -> _Traits:
        """Read an object's traits, or a reference to earlier ones (3.12)."""
        if not head & _INLINE:
            index = head >> 1
            if index >= len(self._traits):
                raise self._cursor.error("a reference to no traits")
            return self._traits[index]
        if head & 2:
            raise self._cursor.error("an object that writes itself")
        self._string()  # the class name
        names: list[str] = []
        while len(names) < head >> 3:
            self._cursor.count_values(1)
            names.append(self._string())
        traits = _Traits(tuple(names), bool(head & 4))
        self._traits.append(traits)
        return traits

    def _u29(self) -> int:
        """Read a number of up to 29 bits: 7 in each byte, 8 in the fourth (1.3.1)."""
        number = 0
        for _ in range(3):
            byte = self._cursor.read(1)[0]
            number = number << 7 | byte & 0x7F
            if byte < 0x80:
                return number
        return number << 8 | self._cursor.read(1)[0]
