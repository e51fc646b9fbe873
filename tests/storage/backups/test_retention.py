"""Which backups are kept."""

from datetime import UTC, datetime, timedelta

import pytest

from storage.backups.retention import Keep, kept, name_of, time_of

# Two a day, at 3 and 15 o'clock, for 100 days until Sunday, 29 November 2026.
LAST = datetime(2026, 11, 29, 15, tzinfo=UTC)
NAMES = [name_of(LAST - timedelta(hours=12 * number)) for number in range(200)]


def keep(daily: int = 0, weekly: int = 0, monthly: int = 0) -> Keep:
    return Keep(daily=daily, weekly=weekly, monthly=monthly)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(keep(daily=3), ["1129T15", "1128T15", "1127T15"], id="days"),
        pytest.param(keep(weekly=2), ["1129T15", "1122T15"], id="weeks end on Sunday"),
        pytest.param(keep(monthly=3), ["1129T15", "1031T15", "0930T15"], id="months"),
        pytest.param(
            keep(daily=2, weekly=2, monthly=2),
            ["1129T15", "1128T15", "1122T15", "1031T15"],
            id="all of them",
        ),
        pytest.param(keep(monthly=9), ["1129T15", "1031T15", "0930T15", "0831T15"], id="no more"),
    ],
)
def test_the_newest_of_each_period_is_kept(rule: Keep, expected: list[str]) -> None:
    found = sorted(kept(NAMES, rule), reverse=True)
    assert [name.removeprefix("2026").removesuffix("0000Z") for name in found] == expected


def test_without_a_rule_all_are_kept() -> None:
    assert kept(NAMES, keep()) == set(NAMES)


def test_days_without_a_backup_do_not_count() -> None:
    names = ["20260101T000000Z", "20260301T000000Z", "20260301T120000Z"]
    assert kept(names, keep(daily=2)) == {names[0], names[2]}


def test_the_newest_is_always_kept() -> None:
    assert kept(["20260101T000000Z"], keep(daily=0, weekly=0, monthly=1)) == {"20260101T000000Z"}
    assert kept([], keep(daily=1)) == frozenset()


@pytest.mark.parametrize("text", ["", "x", "20261129", "20261129T2205Z", "20261329T220518Z"])
def test_other_names_are_of_no_backup(text: str) -> None:
    assert time_of(text) is None


def test_a_name_is_a_time() -> None:
    assert time_of(name_of(LAST)) == LAST
