import json

import pytest

from media.stream_events import (
    BackOnAirEvent,
    EncoderOffEvent,
    EncoderSilentEvent,
    LiveEvent,
    OffAirEvent,
    OwnerEvent,
    SlateEvent,
    SoundMovedEvent,
    StreamEvent,
    SwitchedEvent,
)


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (LiveEvent(), "live", "{}"),
        (OffAirEvent(), "off air", "{}"),
        (OffAirEvent(cause="x"), "off air", '{"cause": "x"}'),
        (
            EncoderOffEvent(slot="backup-1", receiving_count=0, reason="lost"),
            "encoder off",
            '{"slot": "backup-1", "receiving_count": 0, "reason": "lost"}',
        ),
        (
            EncoderOffEvent(slot="primary", receiving_count=0, reason="closed by us", cause="x"),
            "encoder off",
            '{"slot": "primary", "receiving_count": 0, "reason": "closed by us", "cause": "x"}',
        ),
        (
            SwitchedEvent(from_="primary", to="backup-1", reason="lost", gap_ms=40),
            "switched",
            '{"from": "primary", "to": "backup-1", "reason": "lost", "gap_ms": 40}',
        ),
        (
            BackOnAirEvent(slot="primary", gap_ms=-3),
            "back on air",
            '{"slot": "primary", "gap_ms": -3}',
        ),
        (
            SoundMovedEvent(offset_ms=5, moved_ms=-5),
            "sound moved",
            '{"offset_ms": 5, "moved_ms": -5}',
        ),
    ],
)
def test_names_and_facts_are_as_they_were_always_stored(
    event: OwnerEvent, kind: str, text: str
) -> None:
    assert (event.kind, type(event).stored_kind()) == (kind, kind)
    assert json.dumps(event.facts) == text


@pytest.mark.parametrize(
    ("event", "alert"),
    [
        (EncoderOffEvent(slot="primary", receiving_count=1, reason="lost"), "primary_lost"),
        (EncoderOffEvent(slot="primary", receiving_count=1, reason="silent"), "primary_lost"),
        (
            EncoderOffEvent(slot="primary", receiving_count=0, reason="closed by us", cause="it"),
            "primary_lost",
        ),
        (EncoderOffEvent(slot="primary", receiving_count=0, reason="closed by us"), None),
        (EncoderOffEvent(slot="primary", receiving_count=0, reason="goodbye"), None),
        (EncoderOffEvent(slot="backup-1", receiving_count=1, reason="lost"), None),
        (EncoderSilentEvent(slot="primary", receiving_count=1), "primary_lost"),
        (EncoderSilentEvent(slot="backup-1", receiving_count=1), None),
        (SlateEvent(reason="lost"), "off_air"),
        (SlateEvent(reason="stalled"), "off_air"),
        (SlateEvent(reason="goodbye"), None),
        (SlateEvent(reason="paused"), None),
        (OffAirEvent(), None),
        (OffAirEvent(cause="its ingest was killed"), "off_air"),
        (LiveEvent(), None),
    ],
)
def test_operators_are_told_of_what_nobody_asked_for(event: StreamEvent, alert: str | None) -> None:
    assert event.alert == alert
