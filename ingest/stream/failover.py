"""Who is on air: which of the sources that are here now viewers are to get.

Pure, and a matter of levels, not of events: it is asked again and again with how things stand, so
nothing that was missed can leave it stuck. Times are seconds of one clock that never goes back.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from media.stream_keys import Slot

__all__ = ["BEGIN_SECONDS", "PRIMARY", "Health", "Mode", "Policy", "decide", "healthy"]

PRIMARY: Final = Slot(0)
# At a run's beginning a backup waits as long for the primary: encoders that are started together
# connect up to a second apart, and send their sound's configuration up to a second later.
BEGIN_SECONDS: Final = 1.5


class Mode(Enum):
    """What becomes of a backup that is on air when the primary is well again."""

    PREFER_PRIMARY = "prefer_primary"
    STICKY = "sticky"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When to switch, in seconds.

    `detect_seconds`: media that stays away for as long has failed. Encoders send sound or picture
    at least every 100 ms; a network that holds its breath for a second is no reason to switch.
    `return_seconds`: the primary must have been well for as long, so that one which comes and goes
    does not take the stream with it.
    """

    mode: Mode = Mode.PREFER_PRIMARY
    detect_seconds: float = 2.0
    return_seconds: float = 10.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the source in a slot stands; a slot that nobody is connected to has none.

    `since`: from when on media has come without a break; `last`: when its newest came; None: none
    yet. `late`: when media came last that was due long before; None: never. `cut`: from when on its
    media count as not coming, in a drill. `playable`: viewers could be
    given it now, from a keyframe on. `fits`: the run could go on with it; `picture`: it has one.
    """

    since: float | None
    last: float | None
    playable: bool
    late: float | None = None
    cut: float | None = None
    fits: bool = True
    picture: bool = True


def healthy(now: float, health: Health | None, policy: Policy) -> bool:
    """Say whether a source is connected and its media comes."""
    if health is None or health.last is None:
        return False
    last = health.last if health.cut is None else min(health.last, health.cut)
    return now - last < policy.detect_seconds


def decide(
    now: float,
    on_air: Slot | None,
    slots: Mapping[Slot, Health],
    policy: Policy,
    *,
    paused: bool = False,
    begins: bool = False,
) -> Slot | None:
    """Return the slot that viewers are to get from now on; None: the slate.

    `on_air` is who they get now, None: the slate, or nothing yet. `paused`: the owner holds the
    output. `begins`: nothing of the run has been shown. Any source that is well beats the slate; a
    source that stalls gives way to it.
    """
    if paused:
        return None
    if on_air is not None and healthy(now, slots.get(on_air), policy):
        return _back(now, on_air, slots, policy)
    well = [
        slot
        for slot, health in slots.items()
        if slot != on_air
        and _ready(now, health, policy)
        and not (begins and _too_soon(now, slot, health))
    ]
    # What the run cannot go on with ends it: only where there is nothing else.
    return min(well, key=lambda slot: (not slots[slot].fits, slot), default=None)


def _ready(now: float, health: Health | None, policy: Policy) -> bool:
    return health is not None and health.playable and healthy(now, health, policy)


def _too_soon(now: float, slot: Slot, health: Health) -> bool:
    """Say whether a backup is to wait, lest it keep the air from a primary that is as early."""
    return slot != PRIMARY and (health.since is None or now - health.since < BEGIN_SECONDS)


def _back(now: float, on_air: Slot, slots: Mapping[Slot, Health], policy: Policy) -> Slot:
    """Return the primary where it is time to go back to it, else who is on air, and well.

    Not to one without a picture while viewers have one; to get theirs back is worth another run.
    Not to one that still sends what was due before, either: viewers have seen that.
    """
    primary = slots.get(PRIMARY)
    if policy.mode is not Mode.PREFER_PRIMARY or primary is None:
        return on_air
    recovered = (
        _ready(now, primary, policy)
        and primary.since is not None
        and now - max(primary.since, primary.late or 0.0) >= policy.return_seconds
        and (primary.fits or primary.picture)
    )
    return PRIMARY if recovered else on_air
