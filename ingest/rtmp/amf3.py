"""AMF3 values, as embedded in AMF0 after the marker 0x11.

Decoding only: answers are always AMF0. Values become Python values as in `amf0`; integers are
floats like all numbers, byte arrays are None (they are not needed), an array with names is a dict.
Externalizable objects cannot be read without knowing their class: they are an error, and so is an
object that contains itself.
Any bytes give values or `AmfError` within the bounds of the cursor.
Source: Action Message Format AMF 3 (Adobe, 2013), sections 1.3 and 3.
"""

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from ingest.rtmp.amf import Amf, AmfCursor, Date, ReferableValue

__all__ = ["Amf3Reader"]

_DOUBLE: Final = struct.Struct(">d")
_INLINE: Final = 1  # the lowest bit of a length: a value follows, not a reference
_SIGN: Final = 1 << 28


class _Traits(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    dynamic: bool


class Amf3Reader:
    """Reads AMF3 values at a cursor; one reader for a message, whose values share references."""

    def __init__(self, cursor: AmfCursor) -> None:
        self._cursor = cursor
        self._strings: list[str] = []
        self._traits: list[_Traits] = []
        self._objects: list[ReferableValue | None] = []

    def value(self) -> Amf:
        """Read the next value.

        Raises:
            AmfError: it is malformed, truncated, or exceeds a limit.
        """
        self._cursor.count_values(1)
        marker = self._cursor.read(1)[0]
        read = _READERS.get(marker)
        if read is None:
            raise self._cursor.error(f"AMF3 marker {marker:#04x}")
        return read(self)

    # -- simple values -----------------------------------------------------------------------------

    def nothing(self) -> None:
        """Read undefined or null."""
        return

    def false(self) -> bool:
        """Read false."""
        return False

    def true(self) -> bool:
        """Read true."""
        return True

    def integer(self) -> float:
        """Read a signed integer of 29 bits (3.6)."""
        number = self._u29()
        return float(number - 2 * _SIGN if number & _SIGN else number)

    def double(self) -> float:
        """Read a double (3.7)."""
        (number,) = _DOUBLE.unpack(self._cursor.read(8))
        return number

    def string(self) -> str:
        """Read a string, or a reference to an earlier one (3.8).

        Raises:
            AmfError: it is truncated or too long, or the reference is invalid.
        """
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

    # -- values that may be referred to ------------------------------------------------------------

    def xml(self) -> Amf:
        """Read XML (3.9, 3.13)."""
        return self._referable(lambda size: self._cursor.read_text(size))

    def date(self) -> Amf:
        """Read a date (3.10)."""
        return self._referable(lambda _: Date(self.double()))

    def byte_array(self) -> Amf:
        """Skip a byte array (3.14)."""
        return self._referable(lambda size: self._skipped(size))

    def array(self) -> Amf:
        """Read an array, which may have named values too (3.11)."""
        return self._referable(self._array)

    def object(self) -> Amf:
        """Read an object (3.12)."""
        return self._referable(self._object)

    def integers(self) -> Amf:
        """Read a vector of signed integers (3.15)."""
        return self._referable(lambda size: self._vector(">i", size))

    def unsigned_integers(self) -> Amf:
        """Read a vector of unsigned integers (3.15)."""
        return self._referable(lambda size: self._vector(">I", size))

    def doubles(self) -> Amf:
        """Read a vector of doubles (3.15)."""
        return self._referable(lambda size: self._vector(">d", size))

    def objects(self) -> Amf:
        """Read a vector of objects (3.15)."""
        return self._referable(self._objects_vector)

    def dictionary(self) -> Amf:
        """Read a dictionary without the keys that are not strings (3.16)."""
        return self._referable(self._dictionary)

    def _referable(self, read: Callable[[int], Amf]) -> Amf:
        """Read a reference, or a value with `read`, which gets the value's leading number."""
        cursor = self._cursor
        head = self._u29()
        if not head & _INLINE:
            index = head >> 1
            target = self._objects[index] if index < len(self._objects) else None
            if target is None:
                raise cursor.error("a reference to nothing, or to what encloses it")
            cursor.count_values(target.nodes)
            return target.value
        cursor.enter()
        place, before = len(self._objects), cursor.nodes
        self._objects.append(None)
        value = read(head >> 1)
        self._objects[place] = ReferableValue(value, cursor.nodes - before)
        cursor.leave()
        return value

    def _skipped(self, size: int) -> None:
        self._cursor.read(size)

    def _array(self, size: int) -> Amf:
        named_values = self._pairs()
        # The count is untrusted: values are read one by one, up to the end or the limit.
        values: list[Amf] = []
        while len(values) < size:
            values.append(self.value())
        if not named_values:
            return values
        return named_values | {str(index): value for index, value in enumerate(values)}

    def _object(self, head: int) -> Amf:
        traits = self._traits_of(head)
        values = {name: self.value() for name in traits.names}
        if traits.dynamic:
            values |= self._pairs()
        return values

    def _traits_of(self, head: int) -> _Traits:
        """Read an object's traits, or a reference to earlier ones (3.12)."""
        if not head & _INLINE:
            index = head >> 1
            if index >= len(self._traits):
                raise self._cursor.error("a reference to no traits")
            return self._traits[index]
        if head & 2:
            raise self._cursor.error("an object that writes itself")
        self.string()  # the class name
        names: list[str] = []
        while len(names) < head >> 3:
            self._cursor.count_values(1)
            names.append(self.string())
        traits = _Traits(tuple(names), bool(head & 4))
        self._traits.append(traits)
        return traits

    def _pairs(self) -> dict[str, Amf]:
        values: dict[str, Amf] = {}
        while name := self.string():
            values[name] = self.value()
        return values

    def _vector(self, form: str, size: int) -> Amf:
        self._cursor.read(1)  # whether its length is fixed
        self._cursor.count_values(size)
        data = self._cursor.read(size * struct.calcsize(form))
        return [float(number) for (number,) in struct.iter_unpack(form, data)]

    def _objects_vector(self, size: int) -> Amf:
        self._cursor.read(1)
        self.string()  # their class name
        values: list[Amf] = []
        while len(values) < size:
            values.append(self.value())
        return values

    def _dictionary(self, size: int) -> Amf:
        self._cursor.read(1)  # whether its keys are weak
        values: dict[str, Amf] = {}
        for _ in range(size):
            name, value = self.value(), self.value()
            if isinstance(name, str):
                values[name] = value
        return values

    def _u29(self) -> int:
        """Read a number of up to 29 bits: 7 in each byte, 8 in the fourth (1.3.1)."""
        number = 0
        for _ in range(3):
            byte = self._cursor.read(1)[0]
            number = number << 7 | byte & 0x7F
            if byte < 0x80:
                return number
        return number << 8 | self._cursor.read(1)[0]


_READERS: Final[dict[int, Callable[[Amf3Reader], Amf]]] = {
    0x00: Amf3Reader.nothing,
    0x01: Amf3Reader.nothing,
    0x02: Amf3Reader.false,
    0x03: Amf3Reader.true,
    0x04: Amf3Reader.integer,
    0x05: Amf3Reader.double,
    0x06: Amf3Reader.string,
    0x07: Amf3Reader.xml,
    0x08: Amf3Reader.date,
    0x09: Amf3Reader.array,
    0x0A: Amf3Reader.object,
    0x0B: Amf3Reader.xml,
    0x0C: Amf3Reader.byte_array,
    0x0D: Amf3Reader.integers,
    0x0E: Amf3Reader.unsigned_integers,
    0x0F: Amf3Reader.doubles,
    0x10: Amf3Reader.objects,
    0x11: Amf3Reader.dictionary,
}
