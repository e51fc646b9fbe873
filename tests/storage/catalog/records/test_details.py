"""What owners say of a video, whole or as an edit, and one said over another."""

import msgspec
import pytest

from storage.catalog.records.details import Details, StreamDetails, VideoDetails


def test_an_edit_names_what_was_said_even_if_that_is_empty() -> None:
    edit = VideoDetails.edit(description="", category=4)
    assert (edit.keys, edit.details) == (("description", "category"), VideoDetails(category=4))


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        (VideoDetails(), VideoDetails(title="T", tags=(1,)), VideoDetails(title="T", tags=(1,))),
        (
            VideoDetails(title="T", category=0),
            VideoDetails(title="U", description="d", category=3),
            VideoDetails(title="T", description="d", category=0),
        ),
    ],
)
def test_what_is_said_first_wins(ours: Details, theirs: Details, both: Details) -> None:
    assert ours.over(theirs) == both


def test_links_store_all_that_can_be_said() -> None:
    stored = msgspec.json.encode(VideoDetails(title="T", countries=(642,), tags=(5, "New")))
    assert stored == (
        b'{"title":"T","description":"","category":null,"countries":[642],"tags":[5,"New"]}'
    )
    assert StreamDetails().resolutions == frozenset()
