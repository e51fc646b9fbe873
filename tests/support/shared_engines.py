"""Runs whole suites on PostgreSQL, Redis and a bucket instead of SQLite, memory and a folder.

With `HEADEND_TEST_ENGINES=shared` (`make engines`), the tests of the API and of the corpus use the
engines that several hosts share. Tests without an application, origin, bus or transcoder are
deselected, since the engines make no difference to them.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pytest

from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from tests.support.storage.s3_server import S3Server

_CHOICES: Final = {"": False, "shared": True}
ON_SHARED: Final = _CHOICES[os.environ.get("HEADEND_TEST_ENGINES", "")]
_CACHE_BYTES: Final = 64 << 20

# `either_database` on each database in turn: for statements in which the databases differ (locks,
# upserts, collation, times, numbers, transactions).
ON_BOTH: Final = pytest.mark.parametrize(
    "either_database", ["postgresql"] if ON_SHARED else ["sqlite", "postgresql"], indirect=True
)

# The fixtures that use shared engines if the environment says so.
_FIXTURES: Final = frozenset(
    {"bus", "catalog_database", "pusher_service", "api_service", "on_site", "vod"}
)


def runs_on_shared(item: pytest.Item) -> bool:
    """Return whether a test has a fixture that can use shared engines."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return not _FIXTURES.isdisjoint(names)


def mostly_on(engine: str) -> pytest.MarkDecorator:
    """Run a test on one engine in `make test`, and on the other one in `make prove` only.

    For tests that depend little on the database, or on one engine only.
    """
    other = {"sqlite": "postgresql", "postgresql": "sqlite"}[engine]
    both = [engine, pytest.param(other, marks=pytest.mark.prove)]
    places = ["postgresql"] if ON_SHARED else both
    return pytest.mark.parametrize("either_database", places, indirect=True)


@contextmanager
def bucket_objects(server: S3Server, folder: Path) -> Generator[DiskObjects]:
    """Create an empty bucket for the length of the block, with its scratch files in a folder."""
    with pytest.MonkeyPatch.context() as patch, DiskObjects(folder) as scratch:
        for name, value in server.credentials.items():
            patch.setenv(name, value)
        store = S3Objects(server.new_bucket("media"), scratch, cache_bytes=_CACHE_BYTES)
        # Not a `DiskObjects`: the tests of these suites use the common interface of stores only.
        yield cast("DiskObjects", store)
