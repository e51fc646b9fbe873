"""The protocol of the reporters of an installation's state."""

from collections.abc import Sequence

import msgspec
import pytest

from api.operations.report import Finding, OperationsReporter, VersionsReport


class OnlyExamines:
    """Has half of the protocol."""

    async def examine(self) -> Sequence[Finding]:
        return []


def test_an_incomplete_reporter_does_not_match_the_protocol() -> None:
    assert not isinstance(OnlyExamines(), OperationsReporter)


def test_values_are_read_only_and_encode_under_their_names() -> None:
    report = VersionsReport(headend="1", python="3.11", database="SQLite", tables="15")
    assert msgspec.json.decode(msgspec.json.encode(report)) == {
        "headend": "1", "python": "3.11", "database": "SQLite", "tables": "15",
    }  # fmt: skip
    with pytest.raises(AttributeError):
        report.headend = "2"  # type: ignore[misc]  # that it cannot be set is the test
