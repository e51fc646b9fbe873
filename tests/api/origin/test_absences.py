"""Absences are remembered for a second, and few unknown names are asked for in one."""

from api.origin.absences import Absences, Standing

HASH, OTHER = "AAAAAAAAAAAA", "BBBBBBBBBBBB"


def test_an_absence_is_remembered_for_a_second() -> None:
    absences = Absences()
    assert absences.ask(HASH, "one", 10.0) is Standing.UNKNOWN
    absences.missed("one", 10.2)
    assert absences.ask(HASH, "one", 11.1) is Standing.ABSENT
    assert absences.ask(HASH, "one", 11.2) is Standing.UNKNOWN
    absences.missed("one", 11.2, is_named=True)
    assert absences.ask(HASH, "one", 11.3) is Standing.CONFIRMED


def test_twenty_unknown_names_of_a_record_are_asked_for_in_a_second() -> None:
    absences = Absences()
    asked = [absences.ask(HASH, f"name {number}", 10.0) for number in range(30)]
    assert asked == [Standing.UNKNOWN] * 20 + [Standing.CROWDED] * 10
    # The same again are none more, and those of other records have their own number.
    assert absences.ask(HASH, "name 0", 10.5) is Standing.UNKNOWN
    assert absences.ask(OTHER, "name 20", 10.5) is Standing.UNKNOWN
    absences.missed("name 0", 10.5)
    assert absences.ask(HASH, "name 20", 10.9) is Standing.CROWDED
    assert absences.ask(HASH, "name 20", 11.0) is Standing.UNKNOWN


def test_what_is_found_leaves_its_place_to_others() -> None:
    absences = Absences()
    for number in range(100):
        assert absences.ask(HASH, f"name {number}", 10.0) is Standing.UNKNOWN
        absences.found(HASH, f"name {number}")


def test_neither_absences_nor_records_grow_without_bound() -> None:
    absences = Absences()
    for number in range(10_100):
        absences.missed(f"name {number}", 10.0)
    assert absences.ask(HASH, "name 0", 10.0) is Standing.UNKNOWN
    assert absences.ask(HASH, "name 10099", 10.0) is Standing.ABSENT
    for number in range(30):
        absences.ask(OTHER, f"more {number}", 10.0)
    assert absences.ask(OTHER, "another", 10.0) is Standing.CROWDED
    for number in range(1000):
        absences.ask(f"record {number}", "any", 10.0)
    assert absences.ask(OTHER, "another", 10.0) is Standing.UNKNOWN
