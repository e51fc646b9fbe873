"""Unwraps an encoder's timestamps into one timeline, interrupted only where the encoder jumped.

Pure. Milliseconds. The wire has 32 bits; some encoders count in 31 (OBS masks an int32, so a stream
that begins at -40 ms starts with 0x7FFFFFD8), and a 32-bit wrap is a 31-bit one too: so times are
unwrapped modulo 2**31 to the nearest value, and begin signed. An error is a multiple of 24.8 days,
and has no effect.

Audio and video share one timeline. They are interleaved, so a step back is measured against the
track's own last time and a step forward against the newest of both.
"""

from enum import Enum, auto
from typing import Final

import msgspec

# Encoders that drop a few frames step by tens of ms; one that steps back this far has restarted.
BACK_MS: Final = 250
# Longer gaps are a pause of the encoder; players wait through shorter ones.
FORWARD_MS: Final = 5_000
# After a jump the other track may still send queued packets: half a second of AAC.
STALE_PACKETS: Final = 25
_WRAP: Final = 1 << 31
_HALF: Final = 1 << 30


class TimestampFit(Enum):
    """How a timestamp relates to the timeline."""

    FITS = auto()
    JUMPS = auto()  # a new epoch begins with this packet
    STALE = auto()  # it belongs to the epoch that has just ended, and is dropped


class PlacedTimestamp(msgspec.Struct, frozen=True, gc=False):
    """A packet's time in ms, on the timeline of its epoch."""

    time: int
    fit: TimestampFit


class _Epoch:
    __slots__ = ("newest", "times")

    def __init__(self, kind: int, time: int) -> None:
        self.times = {kind: time}  # each track's last time
        self.newest = time


class TimestampClock:
    """Places the timestamps of a publisher's packets, in order of arrival."""

    def __init__(self) -> None:
        self._epoch: _Epoch | None = None
        self._previous: _Epoch | None = None
        self._stale_packets = 0

    def read(self, kind: int, stamp: int) -> PlacedTimestamp:
        """Place the timestamp of a packet of track `kind`; `stamp` is the wire's 32 bits."""
        epoch = self._epoch
        if epoch is None:
            time = _nearest(stamp, 0)
            self._epoch = _Epoch(kind, time)
            return PlacedTimestamp(time, TimestampFit.FITS)
        time = _nearest(stamp, epoch.newest)
        track_time = epoch.times.get(kind)
        if track_time is None:
            # The first packet of a track fits anywhere: else a device with two clocks would
            # jump with every packet.
            if self._is_stale(kind, stamp, abs(time - epoch.newest)):
                self._stale_packets += 1
                return PlacedTimestamp(time, TimestampFit.STALE)
        elif time - track_time <= -BACK_MS or time - epoch.newest > FORWARD_MS:
            self._previous, self._epoch = epoch, _Epoch(kind, time)
            self._stale_packets = 0
            return PlacedTimestamp(time, TimestampFit.JUMPS)
        epoch.times[kind] = time
        epoch.newest = max(epoch.newest, time)
        return PlacedTimestamp(time, TimestampFit.FITS)

    def _is_stale(self, kind: int, stamp: int, distance: int) -> bool:
        """Return whether a packet continues its track of the previous epoch."""
        track_time = self._previous.times.get(kind) if self._previous is not None else None
        if track_time is None or self._stale_packets >= STALE_PACKETS:
            return False
        return abs(_nearest(stamp, track_time) - track_time) < distance


def _nearest(stamp: int, reference: int) -> int:
    return reference + (stamp - reference + _HALF) % _WRAP - _HALF
