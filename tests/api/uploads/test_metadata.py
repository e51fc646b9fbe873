"""The details of a video in the metadata of an upload."""

import pytest

from api.http.errors import ApiError
from api.uploads.metadata import NO_DETAILS, read_metadata_details, read_replaced
from storage.catalog.records.details import VideoDetails


def test_details_are_texts_and_json() -> None:
    name, details = read_metadata_details(
        {
            "filename": "a.mp4",
            "filetype": "video/mp4",
            "title": " Mine ",
            "description": "d",
            "category": "4",
            "countries": '["RO", 40]',
            "tags": '[{"id": 5}, {"name": "New"}]',
        }
    )
    assert name == "a.mp4"
    assert details == VideoDetails(
        title="Mine", description="d", category=4, countries=(642, 40), tags=(5, "New")
    )


def test_without_metadata_there_are_no_details() -> None:
    assert read_metadata_details({}) == ("", VideoDetails())
    assert read_metadata_details({"name": "b.mp4", "title": ""}) == ("b.mp4", VideoDetails())


@pytest.mark.parametrize(
    ("metadata", "faults"),
    [
        ({"tags": "{"}, {"tags"}),
        ({"category": "x", "countries": "["}, {"category", "countries"}),
        ({"colour": "red", "title": "a\nb"}, {"colour", "title"}),
        ({"countries": '["XX"]'}, {"countries"}),
        ({"tags": "[{}]"}, {"tags"}),
    ],
)
def test_every_wrong_key_is_named(metadata: dict[str, str], faults: set[str]) -> None:
    with pytest.raises(ApiError) as refused:
        read_metadata_details(metadata)
    assert set(refused.value.errors or ()) == faults


def test_a_replacement_has_no_details_of_the_video() -> None:
    assert read_replaced({"title": "x"}) is None
    assert read_replaced({"replaces": "4", "filename": "a.mp4"}) == "4"
    assert read_replaced({"filename": "a.mp4"}, replacing=True) is None
    for metadata, replacing in (({"replaces": "4", "title": "x"}, False), ({"title": "x"}, True)):
        with pytest.raises(ApiError) as refused:
            read_replaced(metadata, replacing=replacing)
        assert refused.value.errors == {"title": [NO_DETAILS]}
