"""Properties that are computed from a video's row."""

import msgspec
import pytest

from storage.catalog.records.videos import VideoRecord

VIDEO = VideoRecord(
    id=1, project=1, project_key="abcdefghijkl", hash="abcdefABCDEF", own_title=None,
    file_title="holiday", description="", name="holiday", size=1, length_us=0, width=0, height=0,
    state="queued", progress=0, eta=0, uploaded_us=None, transcoding_us=None, completed_us=None,
    created_us=0, updated_us=0, published=False, published_us=None, hidden=False, media=None,
    posters=None, labels="", image_us=None, storage_size=0, version=1,
)  # fmt: skip


@pytest.mark.parametrize(("own", "shown"), [(None, "holiday"), ("Holiday!", "Holiday!"), ("", "")])
def test_the_owners_title_replaces_that_of_the_file(own: str | None, shown: str) -> None:
    assert msgspec.structs.replace(VIDEO, own_title=own).title == shown


@pytest.mark.parametrize(
    ("labels", "shown"), [("", ()), ("360p", ("360p",)), ("360p,720p", ("360p", "720p"))]
)
def test_labels_of_posters_are_in_their_order(labels: str, shown: tuple[str, ...]) -> None:
    assert msgspec.structs.replace(VIDEO, labels=labels).poster_labels == shown
