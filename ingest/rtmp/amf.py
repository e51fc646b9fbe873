"""What AMF0 and AMF3 have in common: their values as Python's, and a bounded way through bytes."""

from typing import TypeAlias

import msgspec

from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits

__all__ = ["Amf", "Cursor", "Date", "Finished"]


class Date(msgspec.Struct, frozen=True):
    """A moment, `milliseconds` since the Unix epoch as the peer's clock had it."""

    milliseconds: float


Amf: TypeAlias = "bool | float | str | Date | dict[str, Amf] | list[Amf] | None"


class Finished(msgspec.Struct, frozen=True):
    """An object that a reference may give again; `nodes` is how many values it unfolds to."""

    value: Amf
    nodes: int


class Cursor:
    """A place in a message's bytes, and what of the bounds is left there."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.at = 0
        self.nodes = 0
        self._limits = limits
        self._depth = 0

    @property
    def done(self) -> bool:
        """Whether all bytes are read."""
        return self.at >= len(self.data)

    def error(self, what: str) -> AmfError:
        """Return an error that names this place."""
        return AmfError(self.at, what)

    def count(self, nodes: int) -> None:
        """Spend so many values.

        Raises:
            AmfError: they are more than a message may have.
        """
        self.nodes += nodes
        if self.nodes > self._limits.amf_nodes:
            raise self.error(f"more than {self._limits.amf_nodes} values")

    def take(self, size: int) -> bytes:
        """Read so many bytes.

        Raises:
            AmfError: there are fewer.
        """
        end = self.at + size
        if end > len(self.data):
            raise self.error("cut off")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def text(self, size: int) -> str:
        """Read a text of so many bytes.

        Raises:
            AmfError: there are fewer, or it is too long.
        """
        if size > self._limits.amf_string_bytes:
            raise self.error(f"a string of {size} bytes")
        # Encoders on old systems write titles in their own code page.
        return self.take(size).decode("utf-8", "replace")

    def enter(self) -> None:
        """Go into an object.

        Raises:
            AmfError: it is nested too deep.
        """
        self._depth += 1
        if self._depth > self._limits.amf_depth:
            raise self.error(f"nested more than {self._limits.amf_depth} deep")

    def leave(self) -> None:
        """Come out of an object."""
        self._depth -= 1
