"""The countries of ISO 3166-1, and the text form in which the catalog stores a list of them.

A country's id is its numeric code, its code the two letters (alpha-2); names are in English. The
list is that of the `iso3166` package, sorted by name without accents.
Source: ISO 3166-1 (numeric and alpha-2 codes).
"""

from collections.abc import Iterable
from typing import Final

import iso3166
import msgspec

from media.accents import without_accents

_COMMA: Final = ","


class Country(msgspec.Struct, frozen=True):
    """A country: `number` is its numeric code, `code` its two letters in upper case."""

    number: int
    code: str
    name: str


def _sort_key(name: str) -> str:
    """Return a name without accents and case, for sorting."""
    return without_accents(name.casefold())


def _entries() -> tuple[Country, ...]:
    entries = [Country(int(each.numeric), each.alpha2, each.name) for each in iso3166.countries]
    return tuple(sorted(entries, key=lambda each: _sort_key(each.name)))


COUNTRIES: Final[tuple[Country, ...]] = _entries()
_BY_NUMBER: Final = {each.number: each for each in COUNTRIES}
_BY_CODE: Final = {each.code: each for each in COUNTRIES}


def find_country(ref: int | str) -> Country | None:
    """Return the country with a number or two letters (any case); None if there is none."""
    if isinstance(ref, int):
        return _BY_NUMBER.get(ref)
    # Some letters outside ASCII have ASCII upper cases: "ß" is not South Sudan ("SS").
    return _BY_CODE.get(ref.upper()) if ref.isascii() else None


def encode_countries(numbers: Iterable[int]) -> str:
    """Return countries in the catalog's form: their numbers, separated by commas."""
    return _COMMA.join(map(str, numbers))


def decode_countries(text: str) -> tuple[Country, ...]:
    """Return the countries of a text by `encode_countries`.

    A number that is no longer in the list is kept, without letters: dropping it could leave an
    empty list, which means no restriction.
    """
    numbers = (int(number) for number in text.split(_COMMA) if number)
    return tuple(_BY_NUMBER.get(number) or Country(number, "", str(number)) for number in numbers)
