"""What viewers get of the session on air: up to which moment, and how long it is held back for.

A moment of the programme is a presentation time by the clock of one source. Where it is known how
far two sources are apart, a moment of one is one of the other, so that a switch goes on where the
programme was, however much later or earlier the other source sends it.

A source that is ahead of others can be held back, so that these have sent the moment that viewers
are at. It is then shown by a delay line, from which packets go as their time comes: when `release`
is called, which those do that receive packets, of any session. Times are seconds of the event
loop's clock.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, Protocol

from ingest.stream.run_feed import RunFeed
from ingest.stream.session_marks import SessionMarks
from ingest.stream.shown_pictures import ShownPictures
from ingest.stream.slot_session import SlotSession
from media.packet import MediaPacket
from media.source_mark import FindMarks, no_marks
from media.stream_keys import Slot
from media.track import VideoTrack

# Until two were shown.
_PICTURE_SECONDS: Final = 1 / 30


class Offsets(Protocol):
    """What is known of how far the slots' encoders are apart."""

    def offset(self, slot: Slot, other: Slot) -> float | None:
        """Return what to add to a time of one slot's packets for the other's of that moment."""
        ...

    def is_awaited(self, slot: Slot, other: Slot) -> bool:
        """Return whether the offset of two slots may be known soon."""
        ...


class Airing:
    """The session on air, and what was passed on of it into the run.

    `shown_until` is when the newest packet that was passed on was due. `sessions` are those of the
    stream at any time.
    """

    def __init__(
        self,
        feed: RunFeed,
        offsets: Offsets | None = None,
        sessions: Mapping[Slot, SlotSession] | None = None,
    ) -> None:
        self.session: SlotSession | None = None
        self.shown_until = 0.0
        self._feed = feed
        self._offsets = offsets
        self._sessions: Mapping[Slot, SlotSession] = {} if sessions is None else sessions
        feed.marks_of_source = self._marks
        self._shown = ShownPictures()
        self._held: deque[tuple[MediaPacket, float]] = deque()
        self._delay = 0.0
        # By session, how far each was apart from the one on air when that one ended.
        self._last_offsets: Mapping[SlotSession, float | None] | None = None

    # -- what is passed on ------------------------------------------------------------------------

    def begin(
        self, session: SlotSession, due: float, moment: float | None = None, delay: float = 0.0
    ) -> None:
        """Put a session on air, `delay` seconds after its packets are due.

        The first one is due at `due`, and shown at `moment` by its clock. What is held back of the
        session before is dropped.
        """
        self.session, self.shown_until = session, due
        self._delay = delay
        self._held.clear()
        self._last_offsets = None
        self._shown = ShownPictures(moment)

    def restart(self) -> None:
        """Handle that another source follows, or another clock, in the session on air."""
        self.flush()
        self._shown = ShownPictures()

    def end(self) -> None:
        """Put the session off air, once all of it was passed on that came."""
        self.flush()
        self.session = None

    def hold_back(self, seconds: float, most: float) -> bool:
        """Hold packets back for longer from now on, for `most` in all; return False if they are."""
        if self._delay >= most:
            return False
        self._delay = min(self._delay + seconds, most)
        return True

    @property
    def limit(self) -> float:
        """The moment by the session's clock from which on nothing more is passed on.

        A picture of a later moment is, if those before it are decoded with it.
        """
        return self._shown.limit

    @limit.setter
    def limit(self, moment: float) -> None:
        self._shown.limit = moment

    def stop(self) -> None:
        """Pass on nothing more of the session."""
        until = self._shown.until
        if until is not None:
            self._shown.limit = min(until, self._shown.limit)

    def show(self, packets: Sequence[MediaPacket], dues: Sequence[float], now: float) -> bool:
        """Pass on what came, as far as its time has come; return what `release` does."""
        if not self._delay and not self._held and self.limit == inf:
            self._note(*packets)
            self._pass_on(packets, dues)
            return False
        self._held.extend(zip(packets, dues, strict=True))
        return self.release(now)

    def release(self, now: float) -> bool:
        """Pass on what is held back and whose time has come; return whether the limit is reached.

        That is when all pictures before it were passed on, and the next one's time has come.
        """
        if not self._held:
            return False
        packets: list[MediaPacket] = []
        dues: list[float] = []
        kept: list[tuple[MediaPacket, float]] = []
        is_reached = False
        while self._held and self._held[0][1] + self._delay <= now:
            packet, due = self._held.popleft()
            is_over, ends = self._is_over(packet)
            is_reached = is_reached or ends
            if is_over:
                kept.append((packet, due))
            else:
                packets.append(packet)
                dues.append(due)
                self._note(packet)
        self._held.extendleft(reversed(kept))
        if packets:
            self._pass_on(packets, dues)
        return is_reached

    def _is_over(self, packet: MediaPacket) -> tuple[bool, bool]:
        """Return whether a packet is not passed on because of the limit, and whether it is reached.

        What is decoded before others that are shown before it has to be passed on, and then those.
        """
        if self.limit == inf:  # as a rule, and what follows is dear for each packet
            return False, False
        shown, moment = self._shown, packet.dts / packet.track.scale
        end = max(self.limit, shown.until or -inf)
        if not self._leads(packet):
            return moment >= end, False
        is_needed = moment < self.limit or shown.first_beyond is not None
        if is_needed and not shown.is_complete:
            return False, False
        return True, moment >= end

    def flush(self) -> None:
        """Pass on all that is held back."""
        if self._held:
            packets, dues = zip(*self._held, strict=True)
            self._held.clear()
            self._note(*packets)
            self._pass_on(packets, dues)

    def _pass_on(self, packets: Sequence[MediaPacket], dues: Sequence[float]) -> None:
        self.shown_until = max(self.shown_until, *dues)
        self._feed.offer(packets)

    def _note(self, *packets: MediaPacket) -> None:
        """Record which pictures are passed on."""
        self._shown.add(packet for packet in packets if self._leads(packet))

    def _leads(self, packet: MediaPacket) -> bool:
        """Return whether a packet is of the picture, or of the sound of a source without one."""
        if isinstance(packet.track, VideoTrack):
            return True
        return self.session is not None and not self.session.buffer.has_picture

    # -- where the programme is -------------------------------------------------------------------

    def lose(self, sessions: Mapping[Slot, SlotSession]) -> None:
        """Remember how far others are apart from the session on air, which ends now."""
        if self.session is not None:
            slot = self.session.slot
            self._last_offsets = {
                other: self._offset(slot, other.slot) for other in sessions.values()
            }

    @property
    def due(self) -> float:
        """When viewers got the newest of what was passed on, if it came as it was due."""
        return self.shown_until + self._delay

    def moment_of(self, session: SlotSession) -> float | None:
        """Return the moment that viewers have got the programme up to, by a session's clock.

        None if it is not known how far that session is apart from the one on air.
        """
        until, offset = self._shown.until, self.offset_of(session)
        return None if until is None or offset is None else until + offset

    @property
    def picture_seconds(self) -> float:
        """How long a picture of the session on air lasts."""
        return self._shown.step or _PICTURE_SECONDS

    @property
    def show_until(self) -> int | None:
        """The `pts` from which on no picture that was passed on is to be shown; None if all are.

        Those came without others before them.
        """
        moment, beyond = self._shown.until, self._shown.first_beyond
        if moment is None or beyond is None or self.session is None:
            return None
        scales = (t.scale for t in self.session.buffer.tracks if isinstance(t, VideoTrack))
        scale = next(scales, None)
        return None if scale is None else round(moment * scale)

    def offset_of(self, session: SlotSession) -> float | None:
        """Return what to add to a time of the session on air for another session's."""
        if self.session is None:
            return None
        if session is self.session:
            return 0.0
        if self._last_offsets is not None:
            return self._last_offsets.get(session)
        return self._offset(self.session.slot, session.slot)

    def is_offset_awaited(self, session: SlotSession) -> bool:
        """Return whether it may be known soon how far a session is apart from the one on air."""
        if self.session is None or self._offsets is None:
            return False
        return self._offsets.is_awaited(self.session.slot, session.slot)

    def leads_by(self, session: SlotSession) -> float | None:
        """Return by how many seconds a session is ahead of the one on air; None if unknown."""
        offset = self.offset_of(session)
        if self.session is None or offset is None:
            return None
        return _lead(session, self.session, -offset)

    def _marks(self) -> FindMarks:
        """Return what finds the marks of the encoders while the present session is on air."""
        if self.session is None:
            return no_marks
        return SessionMarks(
            self.session, self._sessions, lambda one, other: self._offset(one.slot, other.slot)
        )

    def lead(self, session: SlotSession, *others: SlotSession) -> float:
        """Return by how many seconds a session is ahead of the slowest of others, at least 0."""
        leads = (_lead(session, other, self._offset(session.slot, other.slot)) for other in others)
        return max([0.0, *(each for each in leads if each is not None)])

    def _offset(self, slot: Slot, other: Slot) -> float | None:
        return None if self._offsets is None else self._offsets.offset(slot, other)


def _lead(session: SlotSession, other: SlotSession, offset: float | None) -> float | None:
    """Return by how many seconds a session is ahead of another one; None if that is not known.

    `offset` is what to add to a time of the one for the other's of that moment.
    """
    delay, slower = session.arrival_clock.delay, other.arrival_clock.delay
    if offset is None or delay is None or slower is None:
        return None
    return offset + slower - delay
