"""The messages of a watch engine, which compares the encoders of one stream.

    parent: Watch, WatchedSound...       a source, or a source anew: its clock has restarted
    parent: Compare                      engine: Compared
    parent: Unwatch                      the source is gone

Sources have numbers, which the parent gives them.
"""

from typing import Literal

import msgspec

from media.track import AudioTrack


class Watch(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """A source begins, or begins anew: what came of it before is of another clock."""

    source: int
    audio: AudioTrack | None


class WatchedSound(msgspec.Struct, frozen=True, kw_only=True, tag="sound"):
    """Packets of a source's sound: their times, in ticks of its track, and their data."""

    source: int
    packets: tuple[tuple[int, bytes], ...]


class Unwatch(msgspec.Struct, frozen=True, kw_only=True, tag="unwatch"):
    """A source is gone."""

    source: int


class Compare(msgspec.Struct, frozen=True, kw_only=True, tag="compare"):
    """Compare the newest `seconds` of two sources.

    `near_us` is the offset that is assumed (see `Compared`), and at most 0.3 s from it is searched;
    None searches 10 s to either side, seen from what has arrived.
    """

    reference: int
    other: int
    seconds: float
    near_us: int | None = None


# Why two sources cannot be compared now.
NoOffset = Literal["no sound", "too short", "silent", "steady", "ambiguous", "different"]


class Compared(msgspec.Struct, frozen=True, kw_only=True, tag="compared"):
    """What `Compare` found: what the reference shows at t, the other shows at t + `offset_us`.

    Times are those of their packets, in microseconds. `offset_us` is None if it cannot be believed,
    and then `reason` says why. `exact`: the waves agree as well, so it is right to a millisecond,
    otherwise to 10. `correlation` and `ratio` are those of the best place.
    """

    reference: int
    other: int
    offset_us: int | None
    reason: NoOffset | None = None
    exact: bool = False
    correlation: float = 0.0
    ratio: float = 0.0


WatchOrder = Watch | WatchedSound | Unwatch | Compare
