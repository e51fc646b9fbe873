"""One line of time out of an encoder's timestamps: unwrapped, and broken only where it jumped.

Pure. Milliseconds. The wire has 32 bits; some encoders count in 31 (OBS masks an int32, so a stream
that begins at -40 ms says 0x7FFFFFD8 first), and a 32-bit wrap is a 31-bit one too: so times are
unwrapped modulo 2**31, to the nearest, and begin signed. Where that is wrong it is wrong by a
multiple of 24.8 days, which ends up as no jump at all.

Sound and picture share one line. They come interleaved, so a step back is measured against the
track's own last time and a step forward against the newest of both.
"""

from enum import Enum, auto
from typing import Final

import msgspec

__all__ = ["BACK_MS", "FORWARD_MS", "Clock", "Reading", "Verdict"]

# Encoders that drop a few frames step by tens of ms and go on; what steps back this far began anew.
BACK_MS: Final = 250
# Longer holes are an encoder's pause; players wait through shorter ones.
FORWARD_MS: Final = 5_000
# After a jump the other track may still send what it had in its queue: half a second of AAC.
STALE_PACKETS: Final = 25
_WRAP: Final = 1 << 31
_HALF: Final = 1 << 30


class Verdict(Enum):
    """What a timestamp means for the line of time."""

    FITS = auto()
    JUMPS = auto()  # a new epoch begins with this packet
    STALE = auto()  # it belongs to the epoch that has just ended: drop it


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A packet's time in ms, on the line of its epoch."""

    time: int
    verdict: Verdict


class _Epoch:
    __slots__ = ("newest", "times")

    def __init__(self, kind: int, time: int) -> None:
        self.times = {kind: time}  # each track's last time
        self.newest = time


class Clock:
    """Reads the timestamps of a publisher's packets in the order in which they came."""

    def __init__(self) -> None:
        self._now: _Epoch | None = None
        self._before: _Epoch | None = None
        self._stale = 0
        self.epoch = 0

    @property
    def ended_at(self) -> int:
        """The newest time of the epoch before this one; 0 in the first."""
        return self._before.newest if self._before is not None else 0

    def read(self, kind: int, stamp: int) -> Reading:
        """Place the timestamp of a packet of track `kind`; `stamp` is the wire's 32 bits."""
        epoch = self._now
        if epoch is None:
            time = _nearest(stamp, 0)
            self._now = _Epoch(kind, time)
            return Reading(time, Verdict.FITS)
        time = _nearest(stamp, epoch.newest)
        own = epoch.times.get(kind)
        if own is None:
            # The first of its track fits wherever it is: a device that runs two clocks
            # would else jump with every packet.
            if self._is_stale(kind, stamp, abs(time - epoch.newest)):
                self._stale += 1
                return Reading(time, Verdict.STALE)
        elif time - own <= -BACK_MS or time - epoch.newest > FORWARD_MS:
            self._before, self._now = epoch, _Epoch(kind, time)
            self._stale = 0
            self.epoch += 1
            return Reading(time, Verdict.JUMPS)
        epoch.times[kind] = time
        epoch.newest = max(epoch.newest, time)
        return Reading(time, Verdict.FITS)

    def _is_stale(self, kind: int, stamp: int, distance: int) -> bool:
        """Say whether a packet continues its track of the epoch before, rather than this one."""
        own = self._before.times.get(kind) if self._before is not None else None
        if own is None or self._stale >= STALE_PACKETS:
            return False
        return abs(_nearest(stamp, own) - own) < distance


def _nearest(stamp: int, reference: int) -> int:
    return reference + (stamp - reference + _HALF) % _WRAP - _HALF
