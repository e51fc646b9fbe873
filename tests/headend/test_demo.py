"""The lines that the demo prints."""

import pytest

from headend.demo import sentence


@pytest.mark.parametrize(
    ("kind", "facts", "expected"),
    [
        pytest.param(
            "switched",
            {"from": "primary", "to": "backup-1", "reason": "lost", "gap_ms": -912.4},
            "viewers get backup-1: primary lost, 912 ms shown twice",
            id="shown twice",
        ),
        pytest.param(
            "switched",
            {"from": "backup-1", "to": "primary", "reason": "returned", "gap_ms": 40},
            "viewers get primary: backup-1 returned, 40 ms lost",
            id="lost",
        ),
        pytest.param(
            "switched",
            {"from": "primary", "to": "backup-1", "reason": "stalled", "gap_ms": 0},
            "viewers get backup-1: primary stalled, nothing lost",
            id="exact",
        ),
        pytest.param("slate", {"reason": "lost"}, "viewers get the slate", id="slate"),
        pytest.param(
            "refused",
            {"slot": "primary", "reason": "the stream was ended"},
            "primary is refused: the stream was ended",
            id="ended",
        ),
        pytest.param(
            "back on air", {"slot": "primary", "gap_ms": 3}, "viewers get primary again", id="back"
        ),
        pytest.param("stream settings changed", {"keys": []}, None, id="nothing to viewers"),
    ],
)
def test_an_event_in_a_viewers_words(
    kind: str, facts: dict[str, object], expected: str | None
) -> None:
    assert sentence(kind, facts) == expected
