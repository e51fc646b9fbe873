"""What viewers of one stream get: one of its seats, or the slate.

`ingest.stream.failover.decide` says who is on air; this module knows the seats, asks it, and
carries the answer out: from which packet on a seat is shown, what is told of it. A switch by drill
is one like any other, but for its cause. Times are seconds of the event loop's clock.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from ingest.stream.failover import Health, Policy, decide, healthy
from ingest.stream.run_feed import Feed
from ingest.stream.slot_session import Leaving, Seat
from ingest.stream.track_finder import Begun, Found
from media.packet import MediaPacket
from media.stream_keys import Slot

__all__ = ["DRILL_SECONDS", "Air", "NoDrill"]

log = logging.getLogger(__name__)

# Who asked waits as long: a switch takes what detection takes, 2 s as a rule.
DRILL_SECONDS: Final = 20.0
# What a switch may take beyond detection: a tick, and a loop that is busy.
_MARGIN_SECONDS: Final = 1.0
# A source that went on for so long without the keyframe that was due makes none then: encoders keep
# to a few frames. One that sends nothing may only be held up, and is waited for a little longer.
_LATE_SECONDS: Final = 0.3
_HELD_SECONDS: Final = 1.0

Facts = dict[str, object]


class NoDrill(Exception):
    """Why a drill cannot be, or was broken off; in words for the owner."""


class _Drill(msgspec.Struct, frozen=True):
    seat: Seat
    began: float
    done: asyncio.Future[Facts]


class Air:
    """Who is on air, of the seats of one stream.

    `tell` takes what the owner may want to know: a kind and its facts.
    """

    def __init__(
        self, stream: str, feed: Feed, policy: Policy, tell: Callable[[str, Facts], None]
    ) -> None:
        self.seats: dict[Slot, Seat] = {}
        self.paused = False
        self._stream = stream
        self._feed = feed
        self._policy = policy
        self._tell = tell
        self._on_air: Seat | None = None
        self._shown = 0.0  # when the newest packet that viewers got was due
        self._gone: Leaving | None = None  # why who is on air is not here any more
        self._drill: _Drill | None = None

    @property
    def slot(self) -> Slot | None:
        """Who is on air; None: the slate, or nothing yet."""
        return None if self._on_air is None else self._on_air.slot

    # -- what seats bring -------------------------------------------------------------------------

    def policy_is(self, policy: Policy) -> None:
        """Go by another policy from now on."""
        self._policy = policy
        for seat in self.seats.values():
            seat.detect(policy.detect_seconds)

    def found(self, seat: Seat, found: list[Found], now: float) -> None:
        """Take what a seat's packets turned out to be; a seat that was taken over says nothing."""
        if not found or self.seats.get(seat.slot) is not seat:
            return
        for value in found:
            keyframe = False
            if isinstance(value, Begun):
                seat.ring.begin(value.tracks)
            elif self._needs_no_ring(seat):
                seat.ring.glance(value, now, seat.pace.due(value, now))
            else:
                keyframe = seat.ring.put(value, now, seat.pace.due(value, now))
            if seat is self._on_air and seat.cut is None:
                self._pass(seat, value, now)
            elif keyframe:
                self.choose(now, at=seat)

    def left(self, seat: Seat, now: float, why: Leaving, *, slate: bool) -> None:
        """Take note that a seat is empty.

        Where nobody takes its place, viewers get the slate, or nothing where there is to be no
        `slate`.
        """
        if self.seats.get(seat.slot) is not seat:
            return
        del self.seats[seat.slot]
        if seat is self._on_air:
            self._gone = why
            self.choose(now, slate=slate)
        self._spare()

    # -- who is on air ----------------------------------------------------------------------------

    def choose(self, now: float, *, at: Seat | None = None, slate: bool = True) -> None:
        """Put on air who is to be there now; `at` is the seat whose keyframe has just come.

        Who is well makes way only at the other's keyframe, and so does the slate: then nothing is
        lost or shown twice. Who failed makes way at once, or at the next keyframe where that is
        nearer to where it ended than any that came: so no more than half the distance between two
        is lost or shown twice.
        """
        if self.paused and not self._feed.begun:
            self._begin_paused(now)
        want = self._wanted(now)
        if want is None and self._drill is not None:
            self._break_off("no other encoder is well any more", now)
            want = self._wanted(now)
        before = self._on_air
        if want is before:
            return
        if want is None:
            gone = self._gone
            self._off_air("stalled" if gone is None else gone.value, now, slate=slate)
        elif before is None:
            if not self._feed.slate_on or want is at:
                self._put_on_air(want, "begins", now)
        elif healthy(now, self._health(before), self._policy):
            if want is at:
                self._put_on_air(want, "returned", now)
        elif want is at or not self._is_worth_waiting(want, now):
            stalled = "stalled" if before.cut is None else "drill"
            self._put_on_air(want, stalled if self._gone is None else "lost", now)

    def _is_worth_waiting(self, seat: Seat, now: float) -> bool:
        """Say whether a seat's next keyframe is to come nearer to the end than those that came."""
        due = seat.ring.due
        if due is None or seat.ring.reached > due + _LATE_SECONDS or now > due + _HELD_SECONDS:
            return False
        return abs(due - self._shown) < abs(seat.ring.nearest(self._shown) - self._shown)

    def pause(self, now: float) -> None:
        """Give viewers the slate until `resume`, whoever sends."""
        self.paused = True
        if self._on_air is not None:
            self._off_air("paused", now)
        if self._drill is not None:
            self._break_off("the stream was paused", now)

    def resume(self) -> None:
        """Give viewers a source again, from its next keyframe on."""
        self.paused = False

    def run_over(self, now: float, *, held: bool) -> None:
        """Take note that the run is over; one that is `held` goes on after a restart."""
        self.paused = self.paused and held
        if self._drill is not None:
            self._break_off("the run has ended", now)

    def _begin_paused(self, now: float) -> None:
        """Open a run that is paused from its beginning on, once there is a source for it."""
        want = decide(now, None, self._healths(), self._policy, begins=True)
        if want is not None:
            self._feed.begin(self.seats[want].ring.tracks, now)
            self._shown = now
            self._off_air("paused", now)

    def _wanted(self, now: float) -> Seat | None:
        slots = self._healths()
        begins = not self._feed.begun
        here = self._on_air is not None and self.seats.get(self._on_air.slot) is self._on_air
        on_air = self.slot if here else None  # who comes back into its slot is another
        want = decide(now, on_air, slots, self._policy, paused=self.paused, begins=begins)
        return None if want is None else self.seats[want]

    def _healths(self) -> dict[Slot, Health]:
        return {slot: seat.health(self._feed.tracks) for slot, seat in self.seats.items()}

    def _health(self, seat: Seat) -> Health | None:
        here = self.seats.get(seat.slot) is seat
        return seat.health(self._feed.tracks) if here else None

    # -- on and off -------------------------------------------------------------------------------

    def _put_on_air(self, seat: Seat, reason: str, now: float) -> None:
        """Show a seat, from the keyframe on that is nearest to where the last one ended.

        What begins a run is shown from its first keyframe on, and who follows the slate from the
        newest.
        """
        before, ended, begins = self._on_air, self._shown, not self._feed.begun
        slate = self._feed.slate_on
        moment = ended if before is not None else now
        first = seat.since if begins and seat.since is not None else moment
        since, packets, came = seat.ring.since_nearest(first)
        # What follows nothing, or the slate, stands where it came.
        splice = before is not None
        place = since if splice else came
        facts: Facts = {"reason": reason}
        if not begins:
            facts["gap_ms"] = round(1000 * (place - ended))
        log.info("on air", extra={"stream": self._stream, "slot": str(seat.slot), **facts})
        self._on_air, self._gone = seat, None
        self._feed.begin(seat.ring.tracks, place, splice=splice)
        for packet in packets:
            self._feed.offer(packet)
        self._shown = max((seat.pace.due(packet, now) for packet in packets), default=now)
        self._spare()
        if before is not None and before is not seat:
            self._tell("switched", {"from": str(before.slot), "to": str(seat.slot), **facts})
            self._complete(before, seat, facts, now)
        elif slate:
            self._tell("back on air", {"slot": str(seat.slot), "gap_ms": facts["gap_ms"]})

    def _off_air(self, reason: str, now: float, *, slate: bool = True) -> None:
        """Show nobody: the slate from where the last one ended on, or nothing."""
        self._on_air = self._gone = None
        about = {"stream": self._stream, "reason": reason, "slate": slate}
        log.info("nobody on air", extra=about)
        if slate:
            self._feed.slate(min(self._shown, now))
            self._tell("slate", {"reason": reason})
        else:
            self._feed.finish()

    def _pass(self, seat: Seat, value: Found, now: float) -> None:
        if isinstance(value, MediaPacket):
            self._shown = max(self._shown, seat.pace.due(value, now))
            self._feed.offer(value)
        else:
            self._feed.begin(value.tracks, now)

    def _spare(self) -> None:
        if self._on_air is not None and self._needs_no_ring(self._on_air):
            self._on_air.ring.clear()

    def _needs_no_ring(self, seat: Seat) -> bool:
        """Whether it is on air and alone: then there is nobody to come back from."""
        return seat is self._on_air and len(self.seats) == 1 and seat.cut is None

    # -- drills -----------------------------------------------------------------------------------

    def begin_drill(self, now: float) -> asyncio.Future[Facts]:
        """Let who is on air count as silent until another has taken over.

        What is returned is done when that is so, with the facts, or with a `NoDrill`.

        Raises:
            NoDrill: it cannot be.
        """
        seat = self._on_air
        if self._drill is not None:
            raise NoDrill("another drill is on")
        if self.paused:
            raise NoDrill("the stream is paused")
        if seat is None or seat.slot not in self.seats or not self._feed.source_on:
            raise NoDrill("no encoder is on air")
        if self._policy.detect_seconds > DRILL_SECONDS - _MARGIN_SECONDS:
            raise NoDrill(
                f"a switch takes {self._policy.detect_seconds:g} s, as detect_seconds is set; "
                f"a drill may take {DRILL_SECONDS:g} s"
            )
        healths = self._healths()
        healths.pop(seat.slot)
        standby = decide(now, None, healths, self._policy)
        if standby is None:
            raise NoDrill("no other encoder is well")
        if not healths[standby].fits:
            raise NoDrill(f"{standby} cannot go on with the run: only one of the two has a picture")
        self._drill = _Drill(seat, now, asyncio.get_running_loop().create_future())
        seat.cut_off(now)
        log.info("drill", extra={"stream": self._stream, "slot": str(seat.slot)})
        return self._drill.done

    def end_drill(self, begun: asyncio.Future[Facts], now: float) -> None:
        """Break a drill off that nobody waits for any more, if it is still on."""
        if self._drill is not None and self._drill.done is begun:
            self._break_off("nobody waits for it", now)

    def _complete(self, before: Seat, seat: Seat, facts: Facts, now: float) -> None:
        """Say how a drill went, where one is on: another has taken over."""
        if self._drill is None or self._drill.seat is not before:
            return
        drill, self._drill = self._drill, None
        before.join_again(now)
        if not drill.done.done():
            drill.done.set_result(
                {
                    "from": str(before.slot),
                    "to": str(seat.slot),
                    "gap_ms": facts["gap_ms"],
                    "switched_after_ms": round(1000 * (now - drill.began)),
                }
            )

    def _break_off(self, reason: str, now: float) -> None:
        """Give who was cut off back its place, from where it was taken."""
        if self._drill is None:
            return
        drill, self._drill = self._drill, None
        seat = drill.seat
        seat.join_again(now)
        if not drill.done.done():
            drill.done.set_exception(NoDrill(reason))
        here = self.seats.get(seat.slot) is seat
        if here and seat is self._on_air and healthy(now, self._health(seat), self._policy):
            if seat.ring.filled:
                self._put_on_air(seat, "begins", now)
            elif seat.ring.tracks:
                self._feed.begin(seat.ring.tracks, now)
