"""The failover policy: which of the connected sources viewers get.

Pure, and a function of levels, not of events: it is evaluated again and again with the present
state, so that no missed event can wedge it. Times are seconds of a monotonic clock.
"""

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Final

import msgspec

from ingest.stream.track_finder import PICTURE_SECONDS
from media.run_policy import ALIGN_WAIT_SECONDS, LOW_LATENCY_ALIGN_WAIT_SECONDS
from media.stream_keys import Slot

PRIMARY: Final = Slot(0)
# How long a backup waits for the primary before it starts a run: encoders that are started together
# connect up to a second apart, and send their audio configuration up to a second later.
START_WAIT_SECONDS: Final = 1.5
# What encoders show is judged, not measured: one that is judged wrongly must not cost viewers more.
QUALITY_PAUSE_SECONDS: Final = 600.0
# The least `Policy.picture_seconds`: an encoder that reconnects is back within this time.
LEAST_PICTURE_SECONDS: Final = 10.0


class Mode(Enum):
    """What happens to a backup on air once the primary has recovered."""

    PREFER_PRIMARY = "prefer_primary"
    STICKY = "sticky"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When to switch, in seconds.

    `detect_seconds`: a source has failed when no media arrived for this long. Encoders send audio
    or video at least every 100 ms, but a lost packet can hold a network up for half a second.
    `hold_seconds`: the least time for which a silent source stays on air if the slate, or another
    run, would replace it.
    `return_seconds`: how long the primary must have been healthy before viewers get it back, so
    that an unstable one does not disturb the stream.
    `align_wait_seconds`: how long viewers get nothing new at most while a source that is behind
    comes to the moment of the programme where the last one ended.
    `quality_seconds`: how long a source shows black, a frozen picture or silence, while another
    one does not, before that one replaces it; inf if none does.
    `picture_seconds`: how long a run that has lost its picture waits for one, before a source
    without a picture ends it.
    """

    mode: Mode = Mode.PREFER_PRIMARY
    detect_seconds: float = 2.0
    hold_seconds: float = 0.0
    return_seconds: float = 10.0
    align_wait_seconds: float = ALIGN_WAIT_SECONDS
    quality_seconds: float = inf
    picture_seconds: float = 60.0

    @property
    def longest_stall(self) -> float:
        """How long a source may be silent and still be on air."""
        return max(self.detect_seconds, self.hold_seconds)


# At 2 s behind the encoder, a backup must be on air within a second for viewers to notice nothing.
# 0.7 s is longer than a packet that is lost twice is delayed (0.2 s and 0.4 s on Linux).
LOW_LATENCY_POLICY: Final = Policy(
    detect_seconds=0.7, hold_seconds=2.0, align_wait_seconds=LOW_LATENCY_ALIGN_WAIT_SECONDS
)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the source in a slot; an empty slot has none.

    `steady_since` is when the present stretch of uninterrupted media began and `last_media` when
    the newest media arrived; both None before the first. `last_late` is when media that was long
    overdue last arrived (None: never). `cut_off_at` is when a drill began to ignore its media.
    `fault_seconds` is for how long it has shown what another one does not, 0 if it does not, and
    `last_fault` when it last did (None: never).
    `playable`: viewers can be given it now, from a keyframe on. `continues_run`: its tracks fit the
    present run. `has_picture`: it has a video track. `began` is when its first media arrived.
    """

    steady_since: float | None
    last_media: float | None
    playable: bool
    last_late: float | None = None
    cut_off_at: float | None = None
    fault_seconds: float = 0.0
    last_fault: float | None = None
    continues_run: bool = True
    has_picture: bool = True
    began: float | None = None


def is_healthy(now: float, health: Health | None, policy: Policy) -> bool:
    """Return whether a source is connected and its media arrive."""
    return silent_seconds(now, health) < policy.detect_seconds


def silent_seconds(now: float, health: Health | None) -> float:
    """Return for how long a source has sent no media; inf if it never has, or is not connected."""
    if health is None or health.last_media is None:
        return inf
    last, cut_off_at = health.last_media, health.cut_off_at
    return now - (last if cut_off_at is None else min(last, cut_off_at))


def decide(
    now: float,
    on_air: Slot | None,
    slots: Mapping[Slot, Health],
    policy: Policy,
    *,
    paused: bool = False,
    run_begins: bool = False,
    picture_seen: float | None = None,
    quality_switched_at: float = -inf,
) -> Slot | None:
    """Return the slot that viewers are to get from now on; None is the slate.

    `on_air` is the slot that they get now; None: the slate, or nothing yet. `paused`: the owner
    holds the output. `run_begins`: nothing of the run has been shown. `picture_seen` is when a
    healthy source with a picture was last there, None for a run without one, and
    `quality_switched_at` when one was last replaced for what it showed. A stalled source is
    replaced by one that continues the run and did not stall at the same time; by any other, and by
    the slate, only after `policy.longest_stall`. Most stalls are shorter, and what was held up then
    still arrives. A source without a picture ends a run that has one, so it waits until no picture
    is to be expected any more.
    """
    if paused:
        return None
    silent = inf if on_air is None else silent_seconds(now, slots.get(on_air))
    if on_air is not None and silent < policy.detect_seconds:
        if now - quality_switched_at >= QUALITY_PAUSE_SECONDS:
            better = _without_fault(now, on_air, slots, policy)
            if better is not None:
                return better
        return _primary_or_current(now, on_air, slots, policy)
    may_recover = silent < policy.longest_stall
    candidates = [
        slot
        for slot, health in slots.items()
        if slot != on_air
        and _is_ready(now, health, policy)
        and not (may_recover and _is_risky(now, health, policy))
        and not (run_begins and _must_wait(now, slot, slots))
        and not _expects_picture(now, health, policy, picture_seen)
    ]
    # A source that does not fit the run ends it, so it is the last choice.
    return min(
        candidates,
        key=lambda slot: (not slots[slot].continues_run, not slots[slot].has_picture, slot),
        default=on_air if may_recover else None,
    )


def has_fault(health: Health, policy: Policy) -> bool:
    """Return whether a source shows for too long what another one does not show."""
    return health.fault_seconds >= policy.quality_seconds


def _without_fault(
    now: float, on_air: Slot, slots: Mapping[Slot, Health], policy: Policy
) -> Slot | None:
    """Return the slot that replaces a source that sends, but shows a fault; None if none can."""
    present = slots[on_air]
    if not has_fault(present, policy):
        return None
    candidates = [
        slot
        for slot, health in slots.items()
        if slot != on_air
        and _is_ready(now, health, policy)
        and not _is_risky(now, health, policy)
        and health.has_picture >= present.has_picture
        and not health.fault_seconds
    ]
    return min(candidates, default=None)


def _is_ready(now: float, health: Health, policy: Policy) -> bool:
    return health.playable and is_healthy(now, health, policy)


def _is_risky(now: float, health: Health, policy: Policy) -> bool:
    """Return whether switching to a source would end the run, or it has only just recovered.

    In the latter case the network of both sources failed, as a rule, and the other recovers soon.
    """
    since = health.steady_since
    return not health.continues_run or since is None or now - since < policy.detect_seconds


def _must_wait(now: float, slot: Slot, slots: Mapping[Slot, Health]) -> bool:
    """Return whether a backup has to wait for a primary that may be starting at the same time.

    One with a picture does not wait for a primary that has none.
    """
    primary, backup = slots.get(PRIMARY), slots[slot]
    if primary is not None and primary.playable and backup.has_picture > primary.has_picture:
        return False
    since = backup.steady_since
    return slot != PRIMARY and (since is None or now - since < START_WAIT_SECONDS)


def _expects_picture(
    now: float, health: Health, policy: Policy, picture_seen: float | None
) -> bool:
    """Return whether a source is to wait because the run may yet get a picture again.

    That can be its own one, as many encoders send sound before it, or that of another source.
    """
    if picture_seen is None or health.has_picture:
        return False
    began = now if health.began is None else health.began
    return now - picture_seen < policy.picture_seconds or now - began < PICTURE_SECONDS


def _primary_or_current(
    now: float, on_air: Slot, slots: Mapping[Slot, Health], policy: Policy
) -> Slot:
    """Return the primary when it is time to go back to it, else the healthy slot on air.

    A primary without a picture does not replace a source with one; to get the picture back is worth
    another run. A primary that still sends overdue media, which viewers have seen, does not replace
    a source either.
    """
    primary = slots.get(PRIMARY)
    if policy.mode is not Mode.PREFER_PRIMARY or primary is None:
        return on_air
    showed_fault = primary.last_fault is not None and policy.quality_seconds < inf
    if showed_fault and now - (primary.last_fault or 0.0) < policy.return_seconds:
        return on_air
    recovered = (
        _is_ready(now, primary, policy)
        and primary.steady_since is not None
        and now - max(primary.steady_since, primary.last_late or 0.0) >= policy.return_seconds
        and (primary.continues_run or primary.has_picture)
    )
    return PRIMARY if recovered else on_air
