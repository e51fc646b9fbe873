"""The keys in the bodies of edits of videos."""

import msgspec
import pytest

from api.http.errors import ApiError
from api.http.json_body import parse_fields
from api.videos.schemas import PlayerChoice, VideoEdit


def test_keys_that_are_not_sent_are_unset_and_null_is_kept() -> None:
    edit = parse_fields({"title": None, "category": None, "tags": None}, VideoEdit)
    assert edit.title == ""
    assert (edit.category, edit.tags) == (None, None)
    assert (edit.description, edit.countries) == (msgspec.UNSET, msgspec.UNSET)


def test_a_player_must_be_chosen_by_its_number_or_null() -> None:
    assert parse_fields({"player": None}, PlayerChoice).player is None
    assert parse_fields({"player": 4}, PlayerChoice).player == 4
    for wrong in ({}, {"player": "4"}):
        with pytest.raises(ApiError) as refused:
            parse_fields(dict(wrong), PlayerChoice)
        assert set(refused.value.errors or ()) == {"player"}
