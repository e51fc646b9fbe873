"""The file of an import: continued by later attempts, each alone with it."""

from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from storage.objects.addresses import imported_source, partial_import
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import IncomingFileTooLarge
from storage.objects.resumable_file import ResumableFile
from transcode.imports.importer import open_partial_file

HASH = "abcdefghijkl"


@pytest.fixture
def objects(tmp_path: Path) -> Generator[DiskObjects]:
    with DiskObjects(tmp_path, reserve_bytes=0) as opened:
        yield opened


def attempt(
    objects: DiskObjects, number: int, received: int = 0
) -> AbstractAsyncContextManager[ResumableFile]:
    return open_partial_file(
        objects,
        HASH,
        attempt=number,
        received=received,
        max_bytes=10,
        min_free_bytes=0,
        wait_seconds=0,
    )


async def test_a_later_attempt_continues_after_what_counts(objects: DiskObjects) -> None:
    async with attempt(objects, 1) as file:
        await file.write(b"abcdef")
        await file.flush()
        assert await file.sync() == 6
    async with attempt(objects, 2, received=4) as file:
        assert file.position == 4
        await file.write(b"XY")
        await file.flush()
        await file.keep(imported_source(HASH, 2))
    assert await objects.get(imported_source(HASH, 2)) == b"abcdXY"
    assert await objects.stat(partial_import(HASH)) is None


async def test_a_file_that_is_shorter_than_recorded_counts_as_far_as_it_goes(
    objects: DiskObjects,
) -> None:
    async with attempt(objects, 1, received=7) as file:
        assert file.position == 0
        await file.write(b"abc")
        await file.truncate(0)
        assert file.position == 0


async def test_an_attempt_beside_a_worker_that_hangs_has_its_own_file(
    objects: DiskObjects,
) -> None:
    async with attempt(objects, 1) as hung:
        await hung.write(b"abc")
        await hung.flush()
        async with attempt(objects, 2, received=3) as file:
            assert file.position == 0
            await file.write(b"xyz")
            await file.flush()
            await file.keep(imported_source(HASH, 2))
        await hung.write(b"def")
        await hung.flush()
    assert await objects.get(imported_source(HASH, 2)) == b"xyz"
    assert await objects.get(partial_import(HASH)) == b"abcdef"


async def test_no_more_than_the_limit_is_taken(objects: DiskObjects) -> None:
    async with attempt(objects, 1) as file:
        await file.write(b"0123456789")
        with pytest.raises(IncomingFileTooLarge):
            await file.write(b"0")
