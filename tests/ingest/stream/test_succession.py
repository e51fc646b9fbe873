"""Where a session goes on air after another one, by moments or by when packets were due."""

import pytest

from ingest.stream.slot_session import SlotSession
from ingest.stream.succession import Succession
from media.loop_lag import LoopLag
from tests.ingest.stream.test_airing import Shown, packet, session_in

WAIT = 1.0


def fill(session: SlotSession, *times: int, key: int = 0) -> None:
    for at in times:
        each = packet(at) if at == key else packet(at, key=False)
        session.buffer.append(each, at / 1000)


def followed_by(*times: int, slot: int = 1, key: int = 0) -> tuple[Shown, Succession, SlotSession]:
    """Return a session on air that was shown up to 0.2 s, and one of that slot with pictures."""
    shown = Shown()
    shown.send(*(packet(at) for at in range(0, 200, 40)), now=0.16)
    session = session_in(slot)
    fill(session, *times, key=key)
    return shown, Succession(shown.airing, LoopLag()), session


def test_a_session_that_is_behind_is_awaited_until_it_comes_to_the_moment() -> None:
    _, succession, session = followed_by(0, 40, 80)
    assert succession.is_awaited(session, 0.2, WAIT)
    assert not succession.is_awaited(session, 1.2, WAIT)
    fill(session, 400)
    assert not succession.is_awaited(session, 0.2, WAIT)


def test_it_goes_on_with_the_picture_of_the_moment() -> None:
    _, succession, session = followed_by(*range(0, 600, 40))
    entry, missed = succession.entry(session)
    assert entry.show_from == 400
    assert missed == pytest.approx(0.0)
    assert not succession.is_keyframe_awaited(session, 0.2)


def test_once_the_wait_is_over_it_goes_on_with_its_newest_picture() -> None:
    _, succession, session = followed_by(0, 40, 80)
    entry, missed = succession.entry(session)
    assert entry.show_from == 80
    assert missed == pytest.approx(-0.32)


def test_sessions_that_are_not_known_to_be_apart_are_compared_by_their_dues() -> None:
    shown, succession, session = followed_by(*range(0, 600, 40), slot=1)
    shown.airing.lose({})
    entry, missed = succession.entry(session)
    assert (entry.due, entry.show_from) == (0.0, None)
    assert missed == pytest.approx(-0.16)
    assert not succession.is_awaited(session, 0.2, WAIT)


@pytest.mark.parametrize(("ahead", "end"), [(0.5, 0.16), (1.5, 0.66), (9.0, 1.16), (-1.5, -0.34)])
def test_what_was_shown_too_much_is_made_up_for_by_a_second_at_a_time(
    ahead: float, end: float
) -> None:
    shown, succession, session = followed_by(slot=2)
    shown.airing.lose({})
    for at in range(-1000, 2000, 20):
        session.buffer.append(packet(at), at / 1000)
    succession.ahead = ahead
    entry, _ = succession.entry(session)
    assert entry.due == pytest.approx(end, abs=0.011)


def test_a_session_leads_the_run_by_its_own_lead_and_by_what_the_run_is_ahead() -> None:
    shown, succession, session = followed_by(0, 40, 80)
    succession.ahead = 1.0
    succession.note_leads([session])
    assert session.lead == pytest.approx(0.8)
    shown.airing.lose({})
    succession.note_leads([session])
    assert session.lead is None
