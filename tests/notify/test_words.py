"""What operators read: sentences of what happened, whatever facts a row has."""

import pytest

from media.alerts import AlertKind
from notify.words import headline, sentence
from storage.catalog.records.alerts import Alert, AlertBundle, AlertSubject

SHOW = AlertSubject(noun="stream", id=3, title="Morning show")
NEWS = AlertSubject(noun="stream", id=4, title="News")


def bundle(kind: AlertKind, *subjects: AlertSubject | None) -> AlertBundle:
    alerts = tuple(
        Alert(id=number, created_us=1, event="x", facts={}, subject=subject)
        for number, subject in enumerate(subjects)
    )
    return AlertBundle(
        scope=1, kind=kind, address="a@b.example", owner="x", upto=9, total=len(alerts),
        alerts=alerts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (bundle(AlertKind.PRIMARY_LOST, SHOW), "Primary encoder lost: Morning show"),
        (
            bundle(AlertKind.PRIMARY_LOST, SHOW, SHOW),
            "Primary encoders lost 2 times: Morning show",
        ),
        (bundle(AlertKind.OFF_AIR, SHOW, NEWS), "Off air unexpectedly 2 times"),
        (bundle(AlertKind.VIDEO_FAILED, None), "A video failed"),
        (bundle(AlertKind.DISK, None), "A disk is nearly full"),
        (bundle(AlertKind.BACKUP, None, None), "No good backup: 2 times"),
    ],
)
def test_a_headline_names_what_it_is_about(given: AlertBundle, expected: str) -> None:
    assert headline(given) == expected


def test_every_kind_has_a_headline() -> None:
    for kind in AlertKind:
        assert headline(bundle(kind, None))
        assert "2" in headline(bundle(kind, None, None))


@pytest.mark.parametrize(
    ("event", "facts", "expected"),
    [
        (
            "encoder off",
            {"slot": "primary", "receiving_count": 1, "reason": "lost"},
            "The connection of the primary encoder was lost. 1 other encoder sends.",
        ),
        (
            "encoder off",
            {"receiving_count": 0, "reason": "closed by us", "cause": "x"},
            "The process that received the primary encoder ended."
            " No encoder of the stream sends now.",
        ),
        ("encoder off", {}, "The connection of the primary encoder was lost."),
        (
            "encoder silent",
            {"receiving_count": 2},
            "The primary encoder is connected, but sends nothing. 2 other encoders send.",
        ),
        ("slate", {"reason": "stalled"}, "Viewers see the slate: no media arrives."),
        ("slate", {"reason": "new"}, "Viewers see the slate: no encoder is left."),
        ("off air", {"cause": "its ingest ended"}, "The run is over: its ingest ended."),
        ("video failed", {"reason": "no picture"}, "It could not be made: no picture"),
        ("", {"text": "4 GiB are free."}, "4 GiB are free."),
        ("of tomorrow", {}, "of tomorrow"),
    ],
)
def test_what_happened_is_a_sentence(event: str, facts: dict[str, object], expected: str) -> None:
    assert sentence(Alert(id=1, created_us=1, event=event, facts=facts)) == expected
