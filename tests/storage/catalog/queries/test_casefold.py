"""Texts without case."""

import pytest

from storage.catalog.queries.casefold import fold


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Știri", "ȘTIRI", id="Romanian"),
        pytest.param("Straße", "STRASSE", id="German"),
        pytest.param("ΟΔΟΣ", "οδος", id="Greek final sigma"),
        pytest.param("Caf\u00e9", "CAFE\u0301", id="an accent of its own"),
    ],
)
def test_texts_that_differ_in_case_alone_fold_alike(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_texts_that_differ_otherwise_do_not() -> None:
    assert fold("resume") != fold("résumé")
