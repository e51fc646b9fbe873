"""Countries by number and by letters, and as the catalog keeps them."""

import iso3166
import pytest

from media.countries import COUNTRIES, Country, decode_countries, encode_countries, find_country


def test_every_entry_of_the_standard_is_there_once() -> None:
    iso3166_countries = {(int(each.numeric), each.alpha2, each.name) for each in iso3166.countries}
    assert {(each.number, each.code, each.name) for each in COUNTRIES} == iso3166_countries
    assert (
        len({each.number for each in COUNTRIES}) == len(COUNTRIES) == len(iso3166_countries) >= 249
    )


def test_names_are_in_order_whatever_their_accents() -> None:
    names = [each.name for each in COUNTRIES]
    assert names[0] == "Afghanistan"
    assert names.index("Åland Islands") == names.index("Albania") - 1
    assert names.index("Qatar") < names.index("Réunion") < names.index("Romania")


@pytest.mark.parametrize("ref", [642, "RO", "ro", "Ro"])
def test_a_country_is_found_by_number_and_by_letters_in_any_case(ref: int | str) -> None:
    assert find_country(ref) == Country(642, "RO", "Romania")


@pytest.mark.parametrize("ref", [0, -1, 1, 10**30, "", "R", "XX", "ROU", "642", " RO", "ß"])
def test_nothing_else_finds_one(ref: int | str) -> None:
    assert find_country(ref) is None


def test_what_was_packed_is_unpacked_in_its_order() -> None:
    some = (Country(642, "RO", "Romania"), Country(40, "AT", "Austria"))
    assert encode_countries(each.number for each in some) == "642,40"
    assert decode_countries("642,40") == some
    assert encode_countries(()) == ""
    assert decode_countries("") == ()
    assert decode_countries(encode_countries(each.number for each in COUNTRIES)) == COUNTRIES


def test_a_former_country_stays_so_that_its_list_still_restricts() -> None:
    assert decode_countries("1") == (Country(1, "", "1"),)
    kept = [each.number for each in decode_countries("642,1,40")]
    assert encode_countries(kept) == "642,1,40"
    assert find_country("") is None
