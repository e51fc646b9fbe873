"""The newest warnings and errors, as an operator sees them."""

import logging

from headend.recent_log import RecentLog, keeping_recent_log

log = logging.getLogger("tests.recent")


def test_warnings_and_errors_are_kept_with_their_facts_newest_first() -> None:
    with keeping_recent_log() as recent:
        log.info("on air", extra={"stream": "AAAA"})
        log.warning("rung shed", extra={"stream": "AAAA", "rung": 720})
        try:
            int("no number")
        except ValueError:
            log.exception("engine lost")
        newest, older = recent.newest_first()
    log.error("after the block")
    assert (newest.level, newest.event) == ("error", "engine lost")
    assert newest.facts == {
        "exception": "ValueError: invalid literal for int() with base 10: 'no number'"
    }
    assert (older.level, older.event) == ("warning", "rung shed")
    assert older.facts == {"stream": "AAAA", "rung": "720"}
    assert len(recent.newest_first()) == 2


def test_what_a_peer_sent_is_made_printable() -> None:
    with keeping_recent_log() as recent:
        log.warning("closed\x1b[2J", extra={"agent": "a\nb\u202ec"})
    (line,) = recent.newest_first()
    assert (line.event, line.facts) == ("closed\\u001b[2J", {"agent": "a\\u000ab\\u202ec"})


def test_a_flood_takes_no_more_room_than_a_page() -> None:
    recent = RecentLog(most=3)
    for number in range(10):
        facts = {"msg": "x" * 10_000, "levelno": logging.WARNING, "number": number}
        recent.emit(logging.makeLogRecord({**facts, **{f"fact{n}": n for n in range(100)}}))
    lines = recent.newest_first()
    assert [line.facts["number"] for line in lines] == ["9", "8", "7"]
    assert {len(line.event) for line in lines} == {300}
    assert {len(line.facts) for line in lines} == {12}
