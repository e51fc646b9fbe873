"""The parts of a film that an edit list shows, one after the other.

The library reads each part from the keyframe before it, and flags the packets that only lead up to
it or follow it. It places the parts roughly: with B-frames, the first pictures of a part get the
times of the last ones of the part before.

Times are ticks of one clock.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from av.packet import Packet
from av.stream import Stream


class SeamWatch:
    """Finds where a track goes back to the keyframe of another part.

    A decoder that does not begin anew there takes the pictures for those that it has decoded.
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._left_out = False  # the newest packet is not shown

    def is_at(self, packet: "Packet[Stream]") -> bool:
        """Return whether the next packet begins another part."""
        dts, newest = packet.dts or 0, self._newest
        goes_back = newest is not None and dts <= newest and packet.is_keyframe
        is_edited = self._left_out or packet.is_discard
        self._newest, self._left_out = dts, packet.is_discard
        return goes_back and is_edited


class PartJoiner:
    """Places the pictures of each part after those of the part before, in presentation order."""

    def __init__(self) -> None:
        self._newest: int | None = None
        self._step = self._shift = 0

    def begin(self, first: int) -> None:
        """Begin another part, whose first picture has the time `first`."""
        if self._newest is not None and first + self._shift <= self._newest:
            self._shift = self._newest + max(1, self._step) - first

    def add(self, time: int) -> int:
        """Return when the next picture is shown."""
        time += self._shift
        self._step = 0 if self._newest is None else time - self._newest
        self._newest = time
        return time
