"""Puts one of a stream's sessions, or the slate, on air.

`ingest.stream.failover.decide` chooses the slot that viewers get; this module calls it with the
health of the sessions and executes the decision: from which packet on a session is shown, and which
event the owner gets. Times are seconds of the event loop's clock.

What viewers get is one of three, as `RunFeed` passes it on:

                 a keyframe
    nothing ---------------------> a session <---.
       |    <---------------------  |  ^  |      | at a keyframe
       |     the run ends with it   |  |  '------' of another
       |                            |  |
       | paused from   no other is  |  | at its keyframe, or
       | the start on  healthy, or  |  | where it had stalled
       |               paused       v  |
       '-------------------------> slate

`_airing` has the session, and None for the other two. It may be a session that has ended: then
`_lost_reason` says why, and the next one is on its way, but its next keyframe is awaited.

`choose` is asked again and again: by the stream four times a second and whenever something has
changed, here when a session whose packets do not go on air gets a keyframe and when the one on air
ends. It decides from the present state alone, so no event that was missed can leave viewers without
media.

A switch costs as little as possible, so it matters when it happens:

- From a healthy session, or from the slate, only at a keyframe of the new session, the moment that
  it arrives. No frame is lost or repeated.
- Where it is known how far two sessions are apart in the programme (`ingest.stream.airing`), the
  end of a failed one is a moment of the programme. The new session is shown from its picture of
  that moment on, and decoded from the keyframe before. If it is behind, it is given
  `align_wait_seconds` to come there. Back to the primary it goes at the first keyframe of a moment
  that viewers have not got yet, up to which the backup is shown. From the first switch on, a
  session that is ahead is held back by its lead, so that later ones need no wait.
- Otherwise, and where decoding what leads up to that picture would take too long: from a failed
  session at once, from the keyframe in the new session's buffer that is nearest to where the failed
  one ended. If the next keyframe will be nearer, it is awaited. So at most half of the distance
  between two keyframes is lost or repeated.
- Back to a session that stalled until the slate came, in the middle of a GOP if nothing of it is
  missing (`_stalled`): all that was held up arrives then.

Where a session ended is counted in times at which its packets were due (`ArrivalClock`), since a
network may hold them up. What was lost and repeated adds up: the run's own time is ahead of those
times (`Succession.ahead`). Once that is more than a second, switches from failed sessions correct
what exceeds it, each by a second at most, unless the sessions are aligned.

Every session keeps its newest groups of pictures in its buffer. The one on air does too, so that a
cancelled drill continues without a hole; only one that is on air alone needs none. A drill counts
the session on air as silent from a moment on (`cut_off_at`): its media go into the buffer, and not
on air. The rest is as with any failed session, so a drill shows what a failure would. It ends with
the switch, or is cancelled, and either way its session counts as before.

All calls are made by the event loop of the stream, none of them waits, and `now` never goes back.
The stream puts a session into `sessions` itself and calls `set_policy`; from then on `on_begun` and
`on_packets` may come at any time, and `on_closed` once. Nothing comes from a session that was
replaced. `pause` is for a run that is open, and `run_ended` comes after each run.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import msgspec

from ingest.stream.airing import Airing, Offsets
from ingest.stream.drill import DrillRefused, Facts, FailoverDrill, require_time
from ingest.stream.failover import Health, Policy, decide, has_fault, is_healthy, silent_seconds
from ingest.stream.gop_buffer import Entry
from ingest.stream.run_feed import RunFeed
from ingest.stream.slot_session import CloseReason, SlotSession
from ingest.stream.succession import Succession
from ingest.stream.track_finder import SourceBegun, keeps_picture
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.stream_events import BackOnAirEvent, SlateEvent, StreamEvent, SwitchedEvent
from media.stream_keys import Slot
from media.track import VideoTrack

log = logging.getLogger(__name__)

# A lead that is shorter is not held back: it costs no wait that viewers notice.
_LEAST_LEAD: Final = 0.1
# A session is held back for longer than its lead: packets of the slower one arrive unevenly.
_LEAD_MARGIN: Final = 0.05
# From one packet to the next if nothing is lost: a picture at 30 a second.
_STEP_SECONDS: Final = 1 / 30
# How far behind the clock the slate is at most before a source ends it; the run extends it 5 times
# a second.
_SLATE_BEHIND: Final = 0.2
# How long a return waits until it is known how far the primary is apart: that takes 8 to 10 s,
# and as much longer as it is ahead.
_ALIGNED_WITHIN: Final = 15.0
# Sound that arrives before the next picture does, after a stall: half a second of it.
_HELD_SOUND: Final = 25


class Switcher:
    """Decides which of a stream's sessions is on air.

    `on_event` receives events for the stream's owner. `lag` is that of the
    loop that reads the sessions' publishers: their health is judged as of when they were read.
    """

    def __init__(
        self,
        stream: str,
        feed: RunFeed,
        policy: Policy,
        on_event: Callable[[StreamEvent], None],
        lag: LoopLag | None = None,
        offsets: Offsets | None = None,
    ) -> None:
        self.sessions: dict[Slot, SlotSession] = {}
        self.paused = False
        self._stream = stream
        self._feed = feed
        self._policy = policy
        self._on_event = on_event
        self._lag = LoopLag() if lag is None else lag
        self._airing = Airing(feed, offsets, self.sessions)
        self._succession = Succession(self._airing, self._lag)
        self._lost_reason: CloseReason | None = None  # why the session on air has ended
        # The session that the slate has replaced because it stalled, until a packet of it is lost,
        # and its sound since it goes on.
        self._stalled: SlotSession | None = None
        self._held_sound: list[MediaPacket] = []
        self._drill: FailoverDrill | None = None
        self._awaited: SlotSession | None = None  # it is behind, and follows once it is not
        self._next: SlotSession | None = None  # it follows at the limit of the one on air
        self._quality_switched_at = -inf
        self._picture_seen = 0.0  # when a healthy source with a picture was last there

    @property
    def _on_air(self) -> SlotSession | None:
        return self._airing.session

    @property
    def on_air_slot(self) -> Slot | None:
        """The slot on air; None is the slate, or nothing yet."""
        return None if self._on_air is None else self._on_air.slot

    def seconds_to_stall(self, now: float) -> float:
        """Return in how many seconds the session on air stalls, unless media arrive before.

        0 if there is none, or if it has stalled.
        """
        if self._on_air is None:
            return 0.0
        silent = silent_seconds(now, self._on_air.health(()))
        return max(0.0, self._policy.detect_seconds - silent)

    # -- what sessions report ---------------------------------------------------------------------

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy from now on."""
        self._policy = policy
        for session in self.sessions.values():
            session.set_policy(policy)

    def on_begun(self, session: SlotSession, begun: SourceBegun, now: float) -> None:
        """Handle that a session's source begins, or begins anew."""
        if session is self._stalled:
            self._stalled = None
        buffer, new_clock = session.buffer, begun.new_clock
        continues = keeps_picture(buffer.tracks, begun.tracks)
        if continues and not new_clock:
            buffer.change_sound(begun.tracks)
        else:
            buffer.begin(begun.tracks)
        if self._is_shown(session):
            if not continues:
                self._succession.ahead = max(0.0, self._succession.ahead)
            if new_clock or not continues:
                self._airing.restart()
            self._airing.flush()
            self._feed.begin(begun.tracks, now, continues=continues, new_clock=new_clock)
        if begun.held:
            dues = session.arrival_clock.dues(begun.held, now)
            self.on_packets(session, begun.held, dues, now, held=True)

    def on_packets(
        self,
        session: SlotSession,
        packets: Sequence[MediaPacket],
        dues: Sequence[float],
        now: float,
        *,
        held: bool = False,
    ) -> None:
        """Handle what a session received, and when it was due; `held` back, if it came earlier."""
        if not self._is_shown(session):
            self._release(now)
        for place, (packet, due) in enumerate(zip(packets, dues, strict=True)):
            if session is self._stalled and self._goes_on(session, packet, due, now):
                continue
            if self._is_shown(session):
                self._show(session, packets[place:], dues[place:], now)
                return
            if session.buffer.append(packet, due if held else now, due):
                self.choose(now, keyframe_of=session)
        if session is self._awaited:
            self.choose(now)

    def _is_shown(self, session: SlotSession) -> bool:
        return session is self._on_air and session.cut_off_at is None

    def _show(
        self,
        session: SlotSession,
        packets: Sequence[MediaPacket],
        dues: Sequence[float],
        now: float,
    ) -> None:
        """Pass packets of the session on air into the run."""
        if self._needs_no_buffer(session):
            session.buffer.observe(packets, now, dues)
        else:
            for packet, due in zip(packets, dues, strict=True):
                session.buffer.append(packet, now, due)
        if self._airing.show(packets, dues, now):
            self._release(now)

    def _release(self, now: float) -> None:
        """Pass on what was held back; once all of it was that is to be shown, the next follows."""
        if not self._airing.release(now) or self._next is None:
            return
        moment, tolerance = self._airing.moment_of(self._next), self._airing.picture_seconds / 2
        if moment is None or self._next.buffer.reaches(moment, tolerance):
            self._put_on_air(self._next, "returned", now)

    def on_closed(
        self, session: SlotSession, now: float, reason: CloseReason, *, slate: bool
    ) -> None:
        """Handle the end of the session of a slot.

        If no other session replaces it, viewers get the slate, or nothing unless `slate`.
        """
        del self.sessions[session.slot]
        if session is self._stalled:
            self._stalled = None
        if session is self._on_air:
            self._lost_reason = reason
            self._airing.lose(self.sessions)
            self.choose(now, slate=slate)
        self._release_buffer()

    # -- the choice -------------------------------------------------------------------------------

    def choose(
        self, now: float, *, keyframe_of: SlotSession | None = None, slate: bool = True
    ) -> None:
        """Put the right session on air; `keyframe_of` has just received a keyframe.

        The beginning of this module says when a switch waits for a keyframe.
        """
        read_until = self._lag.read_until(now)
        self._succession.note_leads(self.sessions.values())
        if self.paused and not self._feed.has_begun:
            self._begin_paused(read_until, now)
        session = self._choose_session(read_until)
        if session is None and self._drill is not None:
            self._cancel_drill("no other encoder is healthy any more", now)
            session = self._choose_session(read_until)
        before, awaited, self._awaited = self._on_air, self._awaited, None
        if self._is_preferred(awaited, session, read_until):
            session = awaited
        if session is before or before is None or not self._is_healthy(before, read_until):
            self._next, self._airing.limit = None, inf  # a return that was planned
        if session is before:
            self._release(now)
            return
        if session is None:
            reason = "stalled" if self._lost_reason is None else self._lost_reason.value
            stalled = before if self._lost_reason is None and not self.paused else None
            self._take_off_air(reason, slate=slate)
            self._stalled, self._held_sound = stalled, []
        elif before is None:
            if not self._feed.slate_on or session is keyframe_of:
                self._put_on_air(session, "begins", now)
        elif self._is_healthy(before, read_until) and not self._shows_fault(before):
            self._go_back(session, now, at_keyframe=session is keyframe_of)
        else:
            self._replace(before, session, now, at_keyframe=session is keyframe_of)

    def _is_preferred(
        self, awaited: SlotSession | None, session: SlotSession | None, read_until: float
    ) -> bool:
        """Return whether a session that is on its way goes on better than the one that is chosen.

        That is one whose encoder has just come back, so that it is not known how far it is apart.
        """
        if awaited is None or session is None or awaited is session or session is self._on_air:
            return False
        is_known = self._airing.moment_of(session) is not None
        return not is_known and self._is_healthy(awaited, read_until)

    def _replace(
        self, before: SlotSession, session: SlotSession, now: float, *, at_keyframe: bool
    ) -> None:
        """Replace a failed session, unless something that is better for viewers is awaited.

        It has failed, too, if it shows what another one does not.
        """
        fault = before.fault if self._shows_fault(before) else None
        if fault is not None:
            self._airing.stop()  # the other one comes to this moment
        if self._succession.is_awaited(session, now, self._policy.align_wait_seconds):
            self._awaited = session
            self._release(now)
        elif at_keyframe or not self._succession.is_keyframe_awaited(session, now):
            reason = "stalled" if before.cut_off_at is None else "drill"
            if self._lost_reason is not None:
                reason = "lost"
            elif fault is not None:
                reason, self._quality_switched_at = fault.kind, now
            self._put_on_air(session, reason, now)

    def _shows_fault(self, session: SlotSession) -> bool:
        """Return whether a session sends, but shows for too long what another one does not."""
        health = session.health(self._feed.tracks)
        return self._lost_reason is None and has_fault(health, self._policy)

    def _go_back(self, session: SlotSession, now: float, *, at_keyframe: bool) -> None:
        """Return from a healthy session to another one, at a keyframe that was not shown yet.

        The one on air is shown up to that moment, or as far beyond as its reordered pictures go. If
        the other is behind, the one on air is held back, so that the next keyframe is one. If it is
        not known how far they are apart, the return is at a keyframe that has just arrived.
        """
        airing = self._airing
        moment, offset = airing.moment_of(session), airing.offset_of(session)
        if moment is None or offset is None:
            if at_keyframe and not self._is_offset_awaited(session, now):
                self._put_on_air(session, "returned", now)
            return
        if self._next is not None and self._next is not session:
            self._next, airing.limit = None, inf
        keyframe = session.buffer.keyframe_from(moment - airing.picture_seconds / 2)
        if self._next is None and keyframe is not None:
            self._next, airing.limit = session, keyframe - offset
        elif self._next is None and at_keyframe and airing.due <= now:
            # All that was held back before is being shown.
            missed = moment - (session.buffer.newest_keyframe or moment)
            if not airing.hold_back(missed + _LEAD_MARGIN, self._policy.align_wait_seconds):
                self._put_on_air(session, "returned", now)
                return
        self._release(now)

    def _is_offset_awaited(self, session: SlotSession, now: float) -> bool:
        since = session.steady_since
        is_new = since is not None and self._lag.elapsed(since, now) < _ALIGNED_WITHIN
        return is_new and self._airing.is_offset_awaited(session)

    def _delay_for(self, lead: float) -> float:
        """Return for how long a session is held back that is ahead by so many seconds."""
        if lead < _LEAST_LEAD:
            return 0.0
        return min(lead + _LEAD_MARGIN, self._policy.align_wait_seconds)

    def pause(self, now: float) -> None:
        """Show the slate until `resume`."""
        self.paused, self._stalled = True, None
        if self._on_air is not None:
            self._take_off_air("paused")
        self._cancel_drill("the stream was paused", now)

    def resume(self) -> None:
        """Let a source go on air again, from its next keyframe on."""
        self.paused = False

    def run_ended(self, now: float, *, held: bool) -> None:
        """Handle the end of the run; one that is `held` continues after a restart."""
        self.paused = self.paused and held
        self._cancel_drill("the run has ended", now)

    def _begin_paused(self, read_until: float, now: float) -> None:
        """Open a run that is paused from its start on, once there is a source for it."""
        slot = decide(read_until, None, self._healths(), self._policy, run_begins=True)
        if slot is not None:
            self._feed.begin(self.sessions[slot].buffer.tracks, now)
            self._airing.shown_until, self._succession.ahead = now, 0.0
            self._take_off_air("paused")

    def _choose_session(self, read_until: float) -> SlotSession | None:
        slots = self._healths()
        begins = not self._feed.has_begun
        session = self._on_air
        # A new session in the slot that is on air is another source.
        is_attached = session is not None and self.sessions.get(session.slot) is session
        on_air = self.on_air_slot if is_attached else None
        if any(
            each.has_picture and is_healthy(read_until, each, self._policy)
            for each in slots.values()
        ):
            self._picture_seen = read_until
        slot = decide(
            read_until,
            on_air,
            slots,
            self._policy,
            paused=self.paused,
            run_begins=begins,
            picture_seen=self._picture_seen if self._feed.has_picture else None,
            quality_switched_at=self._quality_switched_at,
        )
        return None if slot is None else self.sessions[slot]

    def _healths(self) -> dict[Slot, Health]:
        tracks = self._feed.tracks
        return {slot: session.health(tracks) for slot, session in self.sessions.items()}

    def _is_healthy(self, session: SlotSession, read_until: float) -> bool:
        is_attached = self.sessions.get(session.slot) is session
        health = session.health(self._feed.tracks) if is_attached else None
        return is_healthy(read_until, health, self._policy)

    # -- on and off -------------------------------------------------------------------------------

    def _put_on_air(self, session: SlotSession, reason: str, now: float) -> None:
        """Show a session from the keyframe on that is nearest to the end of the previous one.

        A source that begins a run is shown from its first keyframe on, one that follows the slate
        from its newest.
        """
        airing, before, begins = self._airing, self._on_air, not self._feed.has_begun
        slate = self._feed.slate_on
        is_aligned = airing.moment_of(session) is not None
        entry, gap = self._entry(session, reason, now)
        # A source after nothing, or after the slate, starts at its time of arrival.
        splice = before is not None
        start = entry.due if splice else entry.arrived
        facts: Facts = {"reason": reason}
        gap_ms = round(1000 * gap)
        if begins:
            self._succession.ahead = 0.0
        else:
            facts["gap_ms"] = gap_ms
            reached = airing.shown_until + self._succession.ahead
            if slate:
                reached = max(reached, now - _SLATE_BEHIND)
            # What continues seamlessly is shown a frame after what was shown last; otherwise the
            # run's time is set anew, if that sets it forward.
            ahead = reached - start
            self._succession.ahead = ahead + _STEP_SECONDS if splice else max(0.0, ahead)
        log.info("on air", extra={"stream": self._stream, "slot": str(session.slot), **facts})
        self._lost_reason = self._stalled = self._next = None
        others = [each for each in self.sessions.values() if each is not session]
        delay = self._delay_for(airing.lead(session, *others)) if is_aligned else 0.0
        show_until = airing.show_until if is_aligned else None
        # What is not to be shown may be in the top rendition already, which is encoded then.
        show_from = entry.show_from if show_until is None else entry.first_shown
        airing.begin(session, entry.due, entry.moment, delay)
        self._feed.begin(
            session.buffer.tracks,
            start - entry.preroll,
            splice=splice,
            show_from=show_from,
            show_until=show_until,
        )
        airing.show(entry.packets, session.arrival_clock.dues(entry.packets, now), now)
        self._release_buffer()
        if before is not None and before is not session:
            event = SwitchedEvent(
                from_=str(before.slot),
                to=str(session.slot),
                reason=reason,
                gap_ms=msgspec.UNSET if begins else gap_ms,
            )
            self._on_event(event)
            if self._drill is not None and self._drill.session is before:
                drill, self._drill = self._drill, None
                drill.complete(session, gap_ms, now)
        elif slate:
            self._on_event(BackOnAirEvent(slot=str(session.slot), gap_ms=gap_ms))

    def _entry(self, session: SlotSession, reason: str, now: float) -> tuple[Entry, float]:
        """Return where a session goes on air, and the seconds that viewers miss by that."""
        since = session.steady_since
        if not self._feed.has_begun and since is not None:
            return session.buffer.enter_near(since), 0.0
        if self._on_air is None:
            entry = session.buffer.enter_near(now)
            return entry, entry.arrived - self._airing.shown_until
        return self._succession.entry(session, returns=reason == "returned")

    def _take_off_air(self, reason: str, *, slate: bool = True) -> None:
        """Show no session: the slate from the end of the last one on, or nothing."""
        self._airing.end()
        self._lost_reason = self._next = None
        about = {"stream": self._stream, "reason": reason, "slate": slate}
        log.info("no slot on air", extra=about)
        if slate:
            self._feed.slate(self._airing.shown_until + self._succession.ahead)
            self._on_event(SlateEvent(reason=reason))
        else:
            self._feed.finish()

    def _goes_on(self, session: SlotSession, packet: MediaPacket, due: float, now: float) -> bool:
        """Put a session on air again that had stalled; return whether its sound was held instead.

        All packets that were held up arrive now, so it goes on where it was, if in the middle of a
        GOP: with its next picture, since sound alone would be shown without one.
        """
        if not self._feed.slate_on:
            self._stalled = None
            return False
        if session.buffer.has_picture and not isinstance(packet.track, VideoTrack):
            self._held_sound.append(packet)
            if len(self._held_sound) > _HELD_SOUND:
                self._stalled = None  # the picture does not return
            return self._stalled is not None
        gap_ms = round(1000 * (now - self._airing.shown_until))
        facts: Facts = {"reason": "begins", "gap_ms": gap_ms}
        log.info("on air", extra={"stream": self._stream, "slot": str(session.slot), **facts})
        reached = max(self._airing.shown_until + self._succession.ahead, now - _SLATE_BEHIND)
        self._stalled = None
        self._airing.begin(session, self._airing.shown_until)
        self._succession.ahead = max(0.0, reached - due)
        self._feed.begin(session.buffer.tracks, now, continues=True)
        if self._held_sound:
            self._feed.offer(self._held_sound)
        self._on_event(BackOnAirEvent(slot=str(session.slot), gap_ms=gap_ms))
        return False

    def _release_buffer(self) -> None:
        if self._on_air is not None and self._needs_no_buffer(self._on_air):
            self._on_air.buffer.clear()

    def _needs_no_buffer(self, session: SlotSession) -> bool:
        """Return whether a session is on air and alone: then no switch can lead back to it."""
        return session is self._on_air and len(self.sessions) == 1 and session.cut_off_at is None

    # -- drills -----------------------------------------------------------------------------------

    def begin_drill(self, now: float) -> asyncio.Future[Facts]:
        """Count the session on air as silent until another has taken over.

        The future that is returned gets the facts of the switch, or a `DrillRefused`.

        Raises:
            DrillRefused: a drill is impossible now.
        """
        session = self._on_air
        if self._drill is not None:
            raise DrillRefused("another drill is on")
        if self.paused:
            raise DrillRefused("the stream is paused")
        if session is None or session.slot not in self.sessions or not self._feed.source_on:
            raise DrillRefused("no encoder is on air")
        require_time(self._policy.detect_seconds)
        healths = self._healths()
        healths.pop(session.slot)
        standby = decide(self._lag.read_until(now), None, healths, self._policy)
        if standby is None:
            raise DrillRefused("no other encoder is healthy")
        if not healths[standby].continues_run:
            raise DrillRefused(
                f"{standby} cannot continue the run: only one of the two has a picture"
            )
        self._drill = FailoverDrill(session, now)
        log.info("failover drill", extra={"stream": self._stream, "slot": str(session.slot)})
        return self._drill.outcome

    def end_drill(self, outcome: asyncio.Future[Facts], now: float) -> None:
        """Cancel a drill whose caller stopped waiting, if it is still on."""
        if self._drill is not None and self._drill.outcome is outcome:
            self._cancel_drill("the request for it has ended", now)

    def _cancel_drill(self, reason: str, now: float) -> None:
        """Cancel a drill, if there is one, and restore its session from where media were cut."""
        if self._drill is None:
            return
        drill, self._drill = self._drill, None
        drill.cancel(reason, now)
        session = drill.session
        read_until = self._lag.read_until(now)
        if session is self._on_air and self._is_healthy(session, read_until):
            if session.buffer.has_keyframe:
                self._put_on_air(session, "begins", now)
            elif session.buffer.tracks:
                self._feed.begin(session.buffer.tracks, now)
