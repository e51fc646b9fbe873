"""Findings as text and as JSON."""

import json

import pytest

from api.operations.report import Finding, FindingItem
from headend.install.findings import as_json, as_text, needs_action, size_text

WELL = Finding(topic="jobs", verdict="well", text="none is stuck")
TIDY = Finding(
    topic="leftovers", verdict="tidy", text="1 to be removed",
    items=(FindingItem(path="objects/sources/x", what="file of no video", bytes=2048),),
)  # fmt: skip
ACT = Finding(topic="disk", verdict="act", text="full")


def test_only_findings_that_need_action_are_unhealthy() -> None:
    assert not needs_action((WELL, TIDY))
    assert needs_action((WELL, ACT, TIDY))


def test_the_text_ends_with_findings_that_need_action() -> None:
    assert as_text((ACT, WELL, TIDY)).splitlines() == [
        "ok   jobs: none is stuck",
        "tidy leftovers: 1 to be removed",
        "       objects/sources/x 2.0 KiB (file of no video)",
        "ACT  disk: full",
    ]


def test_the_json_has_all_findings() -> None:
    parsed = json.loads(as_json((TIDY, ACT)))
    assert parsed["healthy"] is False
    assert parsed["findings"][0]["things"] == [
        {"path": "objects/sources/x", "what": "file of no video", "bytes": 2048}
    ]
    assert json.loads(as_json((WELL,)))["healthy"] is True


def test_a_foreign_name_writes_nothing_else_to_the_terminal() -> None:
    item = FindingItem(path="objects/sources/\x1b]0;x\x07\nACT  disk: \x9b2J", what="file", bytes=1)
    finding = Finding(topic="leftovers", verdict="tidy", text="\u202ea\nb", items=(item,))
    assert as_text((finding,)).splitlines() == [
        "tidy leftovers: \\u202ea\\u000ab",
        "       objects/sources/\\u001b]0;x\\u0007\\u000aACT  disk: \\u009b2J 1 B (file)",
    ]
    document = as_json((finding,))
    assert document.isprintable()
    assert json.loads(document)["findings"][0]["things"][0]["path"] == item.path


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (1 << 52, "4096.0 TiB"),
    ],
)
def test_sizes_are_read_by_people(size: int, text: str) -> None:
    assert size_text(size) == text
