"""PostgreSQL, Redis and a bucket in the place of SQLite, a folder and memory, for whole suites.

With `HEADEND_TEST_ENGINES=shared` the tests of the API and of the corpus run on what several hosts
share (`make engines`): all that need an application, an origin, a bus or a transcoder over a
catalog. Others are left out, since they would be the same again.
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

__all__ = ["ON_BOTH", "ON_SHARED", "bucket_objects", "mostly_on", "runs_on_shared"]

_CHOICES: Final = {"": False, "shared": True}
ON_SHARED: Final = _CHOICES[os.environ.get("HEADEND_TEST_ENGINES", "")]
_CACHE_BYTES: Final = 64 << 20

# `both_places` on each database in turn: for statements in which the databases differ (locks,
# upserts, collation, times, numbers, transactions).
ON_BOTH: Final = pytest.mark.parametrize(
    "both_places", ["postgresql"] if ON_SHARED else ["sqlite", "postgresql"], indirect=True
)

# Fixtures that are on shared engines where that is asked for.
_FIXTURES: Final = frozenset({"bus", "catalog_place", "desk", "house", "on_site", "vod"})


def runs_on_shared(item: pytest.Item) -> bool:
    """Return whether a test has anything that is on shared engines where that is asked for."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return not _FIXTURES.isdisjoint(names)


def mostly_on(engine: str) -> pytest.MarkDecorator:
    """Have `both_places` be a database of one engine, and of the other in `make prove` alone.

    For what does not come to the database, or differs on one of them if on any.
    """
    other = {"sqlite": "postgresql", "postgresql": "sqlite"}[engine]
    both = [engine, pytest.param(other, marks=pytest.mark.prove)]
    places = ["postgresql"] if ON_SHARED else both
    return pytest.mark.parametrize("both_places", places, indirect=True)


@contextmanager
def bucket_objects(server: S3Server, folder: Path) -> Generator[DiskObjects]:
    """Have an empty bucket for the length of the block, with its scratch in a folder."""
    with pytest.MonkeyPatch.context() as patch, DiskObjects(folder) as scratch:
        for name, value in server.credentials.items():
            patch.setenv(name, value)
        store = S3Objects(server.new_bucket("media"), scratch, cache_bytes=_CACHE_BYTES)
        # Another class: the tests of these suites use what every store has.
        yield cast("DiskObjects", store)
