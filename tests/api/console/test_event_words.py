"""Events of a stream as people read them."""

import pytest

from api.console.event_words import describe, slot_name
from media.stream_events import StreamEvent
from storage.catalog.events.kinds import EVENTS, StreamDeletedEvent, StreamRemovedForGoodEvent
from storage.catalog.records.common import EventRecord


def event(kind: str, **facts: object) -> EventRecord:
    return EventRecord(
        id=7, subject="h", kind=kind, facts=facts, token=None, created_us=5, number=1
    )


@pytest.mark.parametrize(
    ("kind", "facts", "text", "tone"),
    [
        (
            "switched",
            {"from": "primary", "to": "backup-1", "reason": "lost", "gap_ms": 40},
            "Backup 1 took over: the connection of primary was lost. Viewers missed 40 ms.",
            "good",
        ),
        (
            "switched",
            {"from": "backup-1", "to": "primary", "reason": "returned", "gap_ms": 0},
            "Primary works again and took over from backup 1. Viewers missed nothing.",
            "good",
        ),
        (
            "switched",
            {"from": "primary", "to": "backup-1", "reason": "stalled", "gap_ms": -1040},
            "Backup 1 took over: primary sent nothing. Viewers saw 1.0 s twice.",
            "good",
        ),
        (
            "switched",
            {"from": "primary", "to": "backup-1", "reason": "frozen", "gap_ms": 0},
            "Backup 1 took over: primary showed a frozen picture. Viewers missed nothing.",
            "good",
        ),
        (
            "switched",
            {"from": "primary", "to": "backup-2", "reason": "of tomorrow"},
            "Backup 2 took over from primary.",
            "good",
        ),
        (
            "failover drill",
            {"from": "primary", "to": "backup-1", "gap_ms": 33, "switched_after_ms": 1250},
            "Failover drill: backup 1 took over after 1.2 s. Viewers missed 33 ms.",
            "good",
        ),
        (
            "encoder off",
            {"slot": "primary", "reason": "lost", "receiving_count": 0},
            "Primary disconnected: the connection was lost.",
            "bad",
        ),
        (
            "encoder off",
            {"slot": "primary", "reason": "goodbye"},
            "Primary disconnected: the encoder ended its stream.",
            "plain",
        ),
        ("encoder off", {"slot": "primary"}, "Primary disconnected.", "bad"),
        (
            "encoder off",
            {
                "slot": "primary",
                "reason": "closed by us",
                "cause": "no process receives encoders",
                "receiving_count": 0,
            },
            "Primary disconnected: no process receives encoders.",
            "bad",
        ),
        (
            "refused",
            {"slot": "primary", "reason": "another encoder is sending"},
            "A second encoder for primary was refused: another encoder is sending.",
            "bad",
        ),
        (
            "refused",
            {"slot": "backup-1", "reason": "the stream was ended"},
            "Backup 1 tried to go live and was refused: the stream was ended.",
            "bad",
        ),
        ("stream allowed", {"stream": 1}, "Encoders may send again.", "plain"),
        (
            "picture unusable",
            {"slot": "backup-1", "cause": "no decoder configuration came before it"},
            "Backup 1: viewers do not get its picture: no decoder configuration came before it.",
            "bad",
        ),
        ("sound unusable", {"slot": "primary"}, "Primary: viewers do not get its sound.", "bad"),
        (
            "picture awaited",
            {"slot": "backup-1", "cause": "the encoder announced one"},
            "Backup 1 sends sound only: viewers get it once its picture comes, as the encoder"
            " announced one.",
            "bad",
        ),
        (
            "slate",
            {"reason": "stalled"},
            "No encoder is on air: no media arrives. Viewers see the slate.",
            "bad",
        ),
        ("slate", {}, "No encoder is on air. Viewers see the slate.", "bad"),
        (
            "rung shed",
            {"renditions": ["480p", "360p"], "late": 2.0},
            "The machine is overloaded: 480p, 360p is no longer encoded.",
            "bad",
        ),
        (
            "recorded",
            {"video": "v", "seconds": 3725.4},
            "The run became a video of 1:02:05.",
            "good",
        ),
        ("recorded", {}, "The run became a video of unknown length.", "good"),
        (
            "off air",
            {"cause": "no process receives encoders"},
            "The run is over: no process receives encoders.",
            "bad",
        ),
        ("off air", {}, "The run is over.", "plain"),
        ("stream edited", {"keys": ["tags", "title"]}, "Edited: tags, title.", "plain"),
        ("a kind of tomorrow", {"x": 1}, "A kind of tomorrow.", "plain"),
    ],
)
def test_an_event_in_words(kind: str, facts: dict[str, object], text: str, tone: str) -> None:
    line = describe(event(kind, **facts))
    assert (line.text, line.tone) == (text, tone)
    assert (line.number, line.at_us) == (7, 5)


def test_every_kind_of_a_streams_events_has_words_also_without_facts() -> None:
    found = [kind for kinds in EVENTS.values() for kind in kinds if issubclass(kind, StreamEvent)]
    assert len(found) > 35
    for kind in {*found} - {StreamDeletedEvent, StreamRemovedForGoodEvent}:  # its page is gone, too
        name = kind.stored_kind()
        plain = f"{name[:1].upper()}{name[1:]}."
        assert describe(event(name)).text != plain, name


def test_slots_have_names_for_people() -> None:
    assert [slot_name(slot) for slot in ("primary", "backup-12")] == ["Primary", "Backup 12"]


@pytest.mark.parametrize(
    ("kind", "video"), [("recorded", "h4sh"), ("clip added", "h4sh"), ("stream edited", "")]
)
def test_a_line_says_which_video_came_of_it(kind: str, video: str) -> None:
    assert describe(event(kind, seconds=30, video="h4sh")).video == video
    assert describe(event(kind, seconds=30)).video == "", "its fact is missing"
