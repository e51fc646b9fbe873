"""The common parts of AMF0 and AMF3: their values in Python, and a bounded cursor over bytes."""

from typing import TypeAlias

import msgspec

from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits


class Date(msgspec.Struct, frozen=True):
    """A date in `milliseconds` since the Unix epoch, by the peer's clock."""

    milliseconds: float


Amf: TypeAlias = "bool | float | str | Date | dict[str, Amf] | list[Amf] | None"


class ReferableValue(msgspec.Struct, frozen=True):
    """A complete value that references may repeat; `nodes` is how many values it expands to."""

    value: Amf
    nodes: int


class AmfCursor:
    """A position in a message's bytes; counts values and depth against the limits."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.at = 0
        self.nodes = 0
        self._limits = limits
        self._depth = 0

    @property
    def at_end(self) -> bool:
        """True once all bytes are read."""
        return self.at >= len(self.data)

    def error(self, what: str) -> AmfError:
        """Return an error with the present position."""
        return AmfError(self.at, what)

    def count_values(self, count: int) -> None:
        """Count values against the limit of a message.

        Raises:
            AmfError: the message has too many.
        """
        self.nodes += count
        if self.nodes > self._limits.amf_nodes:
            raise self.error(f"more than {self._limits.amf_nodes} values")

    def read(self, size: int) -> bytes:
        """Read `size` bytes.

        Raises:
            AmfError: fewer are left.
        """
        end = self.at + size
        if end > len(self.data):
            raise self.error("cut off")
        data = self.data[self.at : end]
        self.at = end
        return data

    def read_text(self, size: int) -> str:
        """Read a string of `size` bytes.

        Raises:
            AmfError: fewer are left, or the string is too long.
        """
        if size > self._limits.amf_string_bytes:
            raise self.error(f"a string of {size} bytes")
        # Encoders on old systems write titles in a local code page.
        return self.read(size).decode("utf-8", "replace")

    def enter(self) -> None:
        """Enter an object.

        Raises:
            AmfError: it is nested too deeply.
        """
        self._depth += 1
        if self._depth > self._limits.amf_depth:
            raise self.error(f"nested more than {self._limits.amf_depth} deep")

    def leave(self) -> None:
        """Leave an object."""
        self._depth -= 1
