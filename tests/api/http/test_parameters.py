"""Record numbers in paths, and records that are deleted meanwhile."""

import pytest

from api.http.errors import ApiError
from api.http.parameters import missing, number_of, still_there


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("42", 42), ("9999999999", 9_999_999_999)])
def test_a_record_has_a_number_from_one_up(text: str, number: int) -> None:
    assert number_of(text, "stream") == number


@pytest.mark.parametrize("text", ["", "0", "01", "-1", "+1", "1.0", "1e3", "٣", " 1", "1" * 11])
def test_any_other_text_is_a_record_that_does_not_exist(text: str) -> None:
    with pytest.raises(ApiError, match=r"There is no such stream\.") as caught:
        number_of(text, "stream")
    assert caught.value.status_code == missing("stream").status_code == 404


def test_a_record_that_was_deleted_meanwhile_does_not_exist() -> None:
    assert still_there(0, "stream") == 0
    with pytest.raises(ApiError, match=r"There is no such stream\.") as caught:
        still_there(None, "stream")
    assert caught.value.status_code == 404
