"""By what another host knows the sessions of a stream again."""

from ingest.stream.session_marks import SessionMarks
from ingest.stream.slot_session import SlotSession
from media.source_mark import SourceMark
from media.stream_keys import Slot
from tests.ingest.stream.test_airing import packet, session_in

OFFSETS: dict[int, float | None] = {0: 0.0, 1: 0.2, 2: None}


def offset(one: SlotSession, other: SlotSession) -> float | None:
    assert one.slot == Slot(0)
    return OFFSETS[other.slot.number]


def test_marks_are_the_newest_keyframes_of_sessions_that_are_known_to_be_apart() -> None:
    sessions = {Slot(number): session_in(number) for number in range(3)}
    on_air, backup, unknown = sessions.values()
    marks = SessionMarks(on_air, sessions, offset)
    assert marks() == ()
    keyframe, newer = packet(40), packet(240)
    for session in (on_air, backup, unknown):
        session.receive_packets([keyframe, packet(80, key=False)], 0.1)
    assert marks() == (SourceMark.of(keyframe), SourceMark.of(keyframe, 0.2))
    # It ends: from then on what was known counts, with newer keyframes of those that are left.
    del sessions[Slot(0)]
    backup.receive_packets([newer], 0.3)
    assert marks() == (SourceMark.of(keyframe), SourceMark.of(newer, 0.2))
    # The times before a clock restarts are of no use after it.
    backup.clock_jumped()
    assert marks() == (SourceMark.of(keyframe),)
