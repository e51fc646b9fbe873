"""Finds by what another host knows the encoders of a stream again, should it continue the run.

The marks belong to the session that is on air when they are asked for: times of the run's newest
media are told by its clock, also for a while after it has ended.
"""

from collections.abc import Callable, Mapping

from ingest.stream.slot_session import SlotSession
from media.source_mark import SourceMark
from media.stream_keys import Slot


class SessionMarks:
    """The marks of a session that is put on air, and of those whose offset from it is known.

    `offset` returns what to add to a time of one session for another one's of the same moment.
    """

    def __init__(
        self,
        session: SlotSession,
        sessions: Mapping[Slot, SlotSession],
        offset: Callable[[SlotSession, SlotSession], float | None],
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._offset = offset
        self._apart: dict[SlotSession, float] = {session: 0.0}

    def __call__(self) -> tuple[SourceMark, ...]:
        """Return the present marks; once the session has ended, what was known of it before."""
        session = self._session
        if self._sessions.get(session.slot) is session:
            offsets = {other: self._offset(session, other) for other in self._sessions.values()}
            self._apart = {each: apart for each, apart in offsets.items() if apart is not None}
        return tuple(
            SourceMark.of(each.newest_keyframe, apart)
            for each, apart in self._apart.items()
            if each.newest_keyframe is not None
        )
