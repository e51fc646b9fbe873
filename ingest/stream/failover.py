"""The failover policy: which of the connected sources viewers get.

Pure, and a function of levels, not of events: it is evaluated again and again with the present
state, so that no missed event can wedge it. Times are seconds of a monotonic clock.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from media.stream_keys import Slot

__all__ = ["PRIMARY", "START_WAIT_SECONDS", "Health", "Mode", "Policy", "decide", "is_healthy"]

PRIMARY: Final = Slot(0)
# How long a backup waits for the primary before it starts a run: encoders that are started together
# connect up to a second apart, and send their audio configuration up to a second later.
START_WAIT_SECONDS: Final = 1.5


class Mode(Enum):
    """What happens to a backup on air once the primary has recovered."""

    PREFER_PRIMARY = "prefer_primary"
    STICKY = "sticky"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When to switch, in seconds.

    `detect_seconds`: a source has failed when no media arrived for as long. Encoders send audio or
    video at least every 100 ms; a network that stalls for a second is no reason to switch.
    `return_seconds`: how long the primary must have been healthy before viewers get it back, so
    that an unstable one does not disturb the stream.
    """

    mode: Mode = Mode.PREFER_PRIMARY
    detect_seconds: float = 2.0
    return_seconds: float = 10.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the source in a slot; an empty slot has none.

    `steady_since` is when the present stretch of uninterrupted media began and `last_media` when
    the newest media arrived; both None before the first. `last_late` is when media that was long
    overdue last arrived (None: never). `cut_off_at` is from when on a drill ignores its media.
    `playable`: viewers can be given it now, from a keyframe on. `continues_run`: its tracks fit the
    present run. `has_picture`: it has a video track.
    """

    steady_since: float | None
    last_media: float | None
    playable: bool
    last_late: float | None = None
    cut_off_at: float | None = None
    continues_run: bool = True
    has_picture: bool = True


def is_healthy(now: float, health: Health | None, policy: Policy) -> bool:
    """Return whether a source is connected and its media arrive."""
    if health is None or health.last_media is None:
        return False
    last, cut_off_at = health.last_media, health.cut_off_at
    return now - (last if cut_off_at is None else min(last, cut_off_at)) < policy.detect_seconds


def decide(
    now: float,
    on_air: Slot | None,
    slots: Mapping[Slot, Health],
    policy: Policy,
    *,
    paused: bool = False,
    run_begins: bool = False,
) -> Slot | None:
    """Return the slot that viewers are to get from now on; None is the slate.

    `on_air` is the slot that they get now; None: the slate, or nothing yet. `paused`: the owner
    holds the output. `run_begins`: nothing of the run has been shown. Any healthy source is better
    than the slate; a stalled source is replaced by it.
    """
    if paused:
        return None
    if on_air is not None and is_healthy(now, slots.get(on_air), policy):
        return _primary_or_current(now, on_air, slots, policy)
    candidates = [
        slot
        for slot, health in slots.items()
        if slot != on_air
        and _is_ready(now, health, policy)
        and not (run_begins and _must_wait(now, slot, health))
    ]
    # A source that does not fit the run ends it, so it is the last choice.
    return min(candidates, key=lambda slot: (not slots[slot].continues_run, slot), default=None)


def _is_ready(now: float, health: Health | None, policy: Policy) -> bool:
    return health is not None and health.playable and is_healthy(now, health, policy)


def _must_wait(now: float, slot: Slot, health: Health) -> bool:
    """Return whether a backup has to wait for a primary that may be starting at the same time."""
    since = health.steady_since
    return slot != PRIMARY and (since is None or now - since < START_WAIT_SECONDS)


def _primary_or_current(
    now: float, on_air: Slot, slots: Mapping[Slot, Health], policy: Policy
) -> Slot:
    """Return the primary when it is time to go back to it, else the healthy slot on air.

    A primary without a picture does not replace one with a picture; to get the picture back is
    worth another run. Nor does one that still sends overdue media: viewers have seen that.
    """
    primary = slots.get(PRIMARY)
    if policy.mode is not Mode.PREFER_PRIMARY or primary is None:
        return on_air
    recovered = (
        _is_ready(now, primary, policy)
        and primary.steady_since is not None
        and now - max(primary.steady_since, primary.last_late or 0.0) >= policy.return_seconds
        and (primary.continues_run or primary.has_picture)
    )
    return PRIMARY if recovered else on_air
