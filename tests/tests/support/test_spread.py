"""The units of work of a test run."""

import pytest

from tests.support.spread import USE_BUCKETS, part_of, prefers_services


def test_every_test_that_needs_the_s3_server_is_in_the_piece_with_buckets(
    request: pytest.FixtureRequest,
) -> None:
    """Otherwise another unit would start a second server."""
    fixtures = {"s3_server", "bucket_store", "media_store"}
    users = {
        item.nodeid.partition("::")[0]
        for item in request.session.items
        if fixtures & set(getattr(item, "fixturenames", ()))
    }
    assert {file for file in users if not file.startswith(USE_BUCKETS)} == set()


def test_two_of_four_processes_follow_encoders_and_the_first_always_does() -> None:
    assert [prefers_services(number) for number in range(4)] == [True, False, True, False]


def test_each_test_is_in_one_part_with_the_others_of_its_file(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items
    parts = [part_of(items, number, 4) for number in range(1, 5)]
    assert sorted(item.nodeid for part in parts for item in part) == sorted(
        item.nodeid for item in items
    )
    files = [file for part in parts for file in {item.nodeid.partition("::")[0] for item in part}]
    assert len(files) == len(set(files))
