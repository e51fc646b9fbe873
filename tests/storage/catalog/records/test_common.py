"""Records: what they hide, and what they compute."""

import pytest

from media.stream_keys import StreamKey
from storage.catalog.records.common import (
    FirstStart,
    IngestRecord,
    Page,
    Principal,
    ProjectRecord,
    StreamRecord,
)

SECRET = "0b54a1c8-3c1e-4a4e-9d3e-0123456789ab"
PROJECT = ProjectRecord(id=1, key="abcdefghijkl", name="films", created_us=0, updated_us=0)


def stream() -> StreamRecord:
    return StreamRecord(
        id=1, project=1, key=StreamKey(hash="abcdefABCDEF", secret=SECRET), title="The news",
        description="", created_us=0, updated_us=0, published=False, published_us=None,
        hidden=False, live=False, processing=False, receiving_count=0, on_air=None,
        no_audio=False, version=1, resolutions=(), backups=(),
    )  # fmt: skip


def test_no_record_prints_a_secret() -> None:
    first = FirstStart(
        project=PROJECT, stream=stream(), owner_token="token-of-the-owner",
        broadcaster_key="key", broadcaster_secret="broadcaster-secret",
        relay_secret="relay-secret",
    )  # fmt: skip
    ingest = IngestRecord(
        id=1, project=1, hash="abcdefABCDEF", slots=frozenset({0}), active=frozenset(),
        proof="proof-of-the-key",
    )  # fmt: skip
    printed = f"{first!r} {first} {stream()!r} {ingest!r} {ingest}"
    for secret in (
        SECRET,
        "token-of-the-owner",
        "broadcaster-secret",
        "relay-secret",
        "proof-of-the-key",
    ):
        assert secret not in printed
    assert "abcdefghijkl" in repr(first)
    assert "abcdefABCDEF" in repr(ingest)


def test_a_streams_hash_is_its_keys() -> None:
    assert stream().hash == "abcdefABCDEF"


@pytest.mark.parametrize(
    ("project", "reached", "reaches"), [(None, 7, True), (7, 7, True), (7, 8, False)]
)
def test_a_token_reaches_its_project_or_all(
    project: int | None, reached: int, reaches: bool
) -> None:
    caller = Principal(id=1, name="ci", project=project, write=True)
    assert caller.reaches(reached) is reaches


@pytest.mark.parametrize(("total", "last"), [(0, 1), (1, 1), (10, 1), (11, 2), (100, 10)])
def test_the_last_page_of_nothing_is_the_first(total: int, last: int) -> None:
    page: Page[int] = Page(items=(), total=total, number=1, size=10)
    assert page.last == last
