"""Who is on air: which of the sources that are here now viewers are to get.

Pure, and a matter of levels, not of events: it is asked again and again with how things stand, so
nothing that was missed can leave it stuck. Times are seconds of one clock that never goes back.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from media.keys import Slot

__all__ = ["PRIMARY", "Health", "Mode", "Policy", "decide", "healthy"]

PRIMARY: Final = Slot(0)


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
    yet. `playable`: viewers could be given it now. `fits`: the run could go on with it; `picture`:
    it has one.
    """

    since: float | None
    last: float | None
    playable: bool
    fits: bool = True
    picture: bool = True


def healthy(now: float, health: Health | None, policy: Policy) -> bool:
    """Say whether a source is connected and its media comes."""
    return (
        health is not None and health.last is not None and now - health.last < policy.detect_seconds
    )


def decide(
    now: float, on_air: Slot | None, slots: Mapping[Slot, Health], policy: Policy
) -> Slot | None:
    """Return the slot that viewers are to get from now on; None: there is nothing to show.

    A source that stalls stays on air while there is no other.
    """
    standbys = [
        slot
        for slot, health in slots.items()
        if slot != on_air and health.playable and healthy(now, health, policy)
    ]
    if on_air is not None and healthy(now, slots.get(on_air), policy):
        back = policy.mode is Mode.PREFER_PRIMARY and PRIMARY in standbys
        return PRIMARY if back and _recovered(now, slots[PRIMARY], policy) else on_air
    if standbys:
        # What the run cannot go on with ends it: only where there is nothing else.
        return min(standbys, key=lambda slot: (not slots[slot].fits, slot))
    return on_air if on_air in slots else None


def _recovered(now: float, primary: Health, policy: Policy) -> bool:
    """Say whether to go back to a primary that is well.

    Not to one without a picture while viewers have one; to get theirs back is worth another run.
    """
    return (
        primary.since is not None
        and now - primary.since >= policy.return_seconds
        and (primary.fits or primary.picture)
    )
