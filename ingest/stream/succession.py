"""Where a session goes on air after another one, and what is waited for until it does.

If it is known how far the two are apart, that is at the moment of the programme up to which viewers
have got it. Otherwise the two are compared by when their packets were due. Times are seconds of the
event loop's clock, moments are those of a session's own clock.
"""

from collections.abc import Iterable
from math import copysign
from typing import Final

from ingest.stream.airing import Airing
from ingest.stream.gop_buffer import Entry
from ingest.stream.slot_session import SlotSession
from media.loop_lag import LoopLag

# A source whose media continued for this long after its keyframe was due sends none now: encoders
# are exact to a few frames. A source that sends nothing may only be held up, so it gets longer.
_LATE_SECONDS: Final = 0.3
_HELD_SECONDS: Final = 1.0

# Each switch loses or repeats some media, and the dates in playlists follow the media. If that adds
# up to more than this, in seconds, switches correct it, each by as much at most. Less is no more
# than one switch with keyframes every 2 s may cost.
_MOST_DRIFT: Final = 1.0
_MOST_CORRECTION: Final = 1.0


class Succession:
    """The succession of sessions on air; `lag` is that of the loop that reads their publishers.

    `ahead` is how far the run's own time is ahead of the times at which its packets were due: by as
    much more media has been shown.
    """

    def __init__(self, airing: Airing, lag: LoopLag) -> None:
        self.ahead = 0.0
        self._airing = airing
        self._lag = lag

    def note_leads(self, sessions: Iterable[SlotSession]) -> None:
        """Record by how much earlier each session sends a moment than the run dates it."""
        for session in sessions:
            lead = self._airing.leads_by(session)
            session.lead = None if lead is None else lead + self.ahead

    def is_awaited(self, session: SlotSession, now: float, most: float) -> bool:
        """Return whether a session is behind, and is given time until it comes to the moment.

        That is as long as viewers have got nothing new for less than `most` seconds.
        """
        moment = self._airing.moment_of(session)
        if moment is None or session.buffer.reaches(moment, self._tolerance):
            return False
        return self._lag.elapsed(self._airing.due, now) < most

    def is_keyframe_awaited(self, session: SlotSession, now: float) -> bool:
        """Return whether the next keyframe will be nearer to the end than those in the buffer.

        A session that can be shown from that moment on, or from its newest picture, needs none.
        """
        buffer, end = session.buffer, self._end(session)
        due = buffer.next_keyframe_due
        if self._airing.moment_of(session) is not None and self._exact_entry(session) is not None:
            return False
        if due is None or buffer.newest_due > due + _LATE_SECONDS:
            return False
        if self._lag.elapsed(due, now) > _HELD_SECONDS:
            return False
        return abs(due - end) < abs(buffer.nearest_keyframe(end) - end)

    def entry(self, session: SlotSession, *, returns: bool = False) -> tuple[Entry, float]:
        """Return where a session goes on air, and the seconds that viewers miss by that.

        They get something twice if these are negative. It `returns` at a keyframe that has just
        come, if it is not known how far it is apart.
        """
        airing, buffer = self._airing, session.buffer
        moment = airing.moment_of(session)
        if moment is None:
            airing.flush()
            entry = buffer.enter_near(airing.shown_until if returns else self._end(session))
            return entry, entry.due - airing.shown_until
        entry = self._exact_entry(session) or buffer.enter_near(buffer.due_at(moment))
        return entry, entry.moment - moment

    def _exact_entry(self, session: SlotSession) -> Entry | None:
        """Return where a session can be shown from the moment on, or from what it has of it.

        None if decoding what leads up to that would take too long.
        """
        buffer, moment = session.buffer, self._airing.moment_of(session)
        if moment is None or not buffer.reaches(moment, self._tolerance):
            moment = buffer.newest_moment
        return buffer.enter_at(moment, self._tolerance)

    def _end(self, session: SlotSession) -> float:
        """Return when the first packet of a session that replaces a failed one should be due.

        That is at the moment of the programme where the failed one ended. If that is not known, it
        is when the failed one ended, unless what the run has lost and repeated adds up to a drift
        of its dates.
        """
        moment = self._airing.moment_of(session)
        if moment is not None:
            return session.buffer.due_at(moment)
        self._airing.flush()
        excess = max(0.0, abs(self.ahead) - _MOST_DRIFT)
        return self._airing.shown_until + copysign(min(excess, _MOST_CORRECTION), self.ahead)

    @property
    def _tolerance(self) -> float:
        """How far pictures of one moment are apart at most, since encoders take them at others."""
        return self._airing.picture_seconds / 2
