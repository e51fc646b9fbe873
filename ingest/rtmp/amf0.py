"""AMF0, the encoding of commands.

Decoding gives plain Python values: number -> float, string, long string and XML -> str, object,
typed object and ECMA array -> dict, strict array -> list, date -> `Date`; undefined and unsupported
-> None. A reference repeats a complete object. The marker 0x11 introduces a value of AMF3 (`amf3`).
Any bytes give values or `AmfError` within the bounds of `limits`: recursion is bounded by
`amf_depth`, and the values that references repeat count against `amf_nodes`.
Source: Action Message Format AMF 0 (Adobe, 2007), section 2.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

from ingest.rtmp.amf import Amf, AmfCursor, Date, ReferableValue
from ingest.rtmp.amf3 import Amf3Reader
from ingest.rtmp.limits import Limits


class EcmaArray(dict[str, Amf]):
    """A dict that is encoded as an ECMA array; decoding gives plain dicts."""


_DOUBLE: Final = struct.Struct(">d")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")

_NUMBER, _BOOLEAN, _STRING, _OBJECT, _NULL = 0x00, 0x01, 0x02, 0x03, 0x05
_UNDEFINED, _REFERENCE, _ECMA_ARRAY, _OBJECT_END = 0x06, 0x07, 0x08, 0x09
_STRICT_ARRAY, _DATE, _LONG_STRING, _UNSUPPORTED = 0x0A, 0x0B, 0x0C, 0x0D
_XML, _TYPED_OBJECT, _AVMPLUS = 0x0F, 0x10, 0x11


def decode(data: bytes, limits: Limits) -> list[Amf]:
    """Return all values in `data`.

    Raises:
        AmfError: a value is malformed, truncated, too deep or too large.
    """
    reader = _Amf0Reader(data, limits)
    values: list[Amf] = []
    while not reader.at_end:
        values.append(reader.value())
    return values


class _Amf0Reader(AmfCursor):
    def __init__(self, data: bytes, limits: Limits) -> None:
        super().__init__(data, limits)
        # Objects in order of appearance, with their number of values; None: not complete yet.
        self._objects: list[ReferableValue | None] = []
        self._amf3: Amf3Reader | None = None

    def value(self) -> Amf:
        self.count_values(1)
        marker = self.read(1)[0]
        read = _READERS.get(marker)
        if read is None:
            raise self.error(f"marker {marker:#04x}")
        return read(self)

    def number(self) -> float:
        (number,) = _DOUBLE.unpack(self.read(8))
        return number

    def boolean(self) -> bool:
        return self.read(1) != b"\0"

    def string(self) -> str:
        return self.read_text(int.from_bytes(self.read(2), "big"))

    def long_string(self) -> str:
        return self.read_text(int.from_bytes(self.read(4), "big"))

    def date(self) -> Date:
        when = self.number()
        self.read(2)  # a time zone that "should not be filled" (2.13)
        return Date(when)

    def nothing(self) -> None:
        return None

    def object(self) -> dict[str, Amf]:
        return self._properties(may_lack_end=False)

    def _properties(self, *, may_lack_end: bool) -> dict[str, Amf]:
        place = self._open()
        values: dict[str, Amf] = {}
        before = self.nodes
        while not (may_lack_end and self.at_end):
            key = self.string()
            if not key and self.data[self.at : self.at + 1] == b"\x09":
                self.at += 1
                break
            values[key] = self.value()
        self._close(place, values, before)
        return values

    def typed_object(self) -> dict[str, Amf]:
        self.string()  # the class name
        return self.object()

    def ecma_array(self) -> dict[str, Amf]:
        # Encoders write wrong counts (0, or one too many): the array ends at its end marker or, if
        # an encoder omits that, at the end of the message.
        self.read(4)
        return self._properties(may_lack_end=True)

    def strict_array(self) -> list[Amf]:
        count = int.from_bytes(self.read(4), "big")
        place = self._open()
        before = self.nodes
        # The count is untrusted: values are read one by one, up to the end or the limit.
        values: list[Amf] = []
        while len(values) < count:
            values.append(self.value())
        self._close(place, values, before)
        return values

    def reference(self) -> Amf:
        index = int.from_bytes(self.read(2), "big")
        target = self._objects[index] if index < len(self._objects) else None
        if target is None:
            raise self.error("a reference to nothing, or to what encloses it")
        self.count_values(target.nodes)
        return target.value

    def amf3(self) -> Amf:
        if self._amf3 is None:
            self._amf3 = Amf3Reader(self)
        return self._amf3.value()

    def _open(self) -> int:
        self.enter()
        self._objects.append(None)
        return len(self._objects) - 1

    def _close(self, place: int, value: Amf, before: int) -> None:
        self.leave()
        self._objects[place] = ReferableValue(value, self.nodes - before)


_READERS: Final[dict[int, Callable[[_Amf0Reader], Amf]]] = {
    _NUMBER: _Amf0Reader.number,
    _BOOLEAN: _Amf0Reader.boolean,
    _STRING: _Amf0Reader.string,
    _OBJECT: _Amf0Reader.object,
    _NULL: _Amf0Reader.nothing,
    _UNDEFINED: _Amf0Reader.nothing,
    _REFERENCE: _Amf0Reader.reference,
    _ECMA_ARRAY: _Amf0Reader.ecma_array,
    _STRICT_ARRAY: _Amf0Reader.strict_array,
    _DATE: _Amf0Reader.date,
    _LONG_STRING: _Amf0Reader.long_string,
    _UNSUPPORTED: _Amf0Reader.nothing,
    _XML: _Amf0Reader.long_string,
    _TYPED_OBJECT: _Amf0Reader.typed_object,
    _AVMPLUS: _Amf0Reader.amf3,
}


def encode(*values: Amf) -> bytes:
    """Return the values one after the other. They are trusted: depth and size are not bounded."""
    return b"".join(map(_encoded, values))


def _encoded(value: Amf) -> bytes:
    match value:
        case None:
            coded = bytes((_NULL,))
        case bool():
            coded = bytes((_BOOLEAN, value))
        case int() | float():
            coded = bytes((_NUMBER,)) + _DOUBLE.pack(value)
        case str():
            coded = _string(value.encode())
        case Date():
            coded = bytes((_DATE,)) + _DOUBLE.pack(value.milliseconds) + b"\0\0"
        case EcmaArray():
            coded = bytes((_ECMA_ARRAY,)) + _U32.pack(len(value)) + _pairs(value)
        case dict():
            coded = bytes((_OBJECT,)) + _pairs(value)
        case list():
            coded = bytes((_STRICT_ARRAY,)) + _U32.pack(len(value)) + encode(*value)
    return coded


def _string(text: bytes) -> bytes:
    if len(text) > 0xFFFF:
        return bytes((_LONG_STRING,)) + _U32.pack(len(text)) + text
    return bytes((_STRING,)) + _U16.pack(len(text)) + text


def _pairs(values: Mapping[str, Amf]) -> bytes:
    pairs: list[bytes] = []
    for key, value in values.items():
        name = key.encode()
        pairs.append(_U16.pack(len(name)) + name + _encoded(value))
    return b"".join(pairs) + b"\0\0\x09"
