"""Uploads in pieces: any host continues them, and pieces that no row names are ignored."""

import asyncio
import hashlib
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from storage.objects.addresses import PIECES, upload_piece, upload_pieces
from storage.objects.base import ObjectMissing, StoreFailed, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.resumable_file import FileStillLocked
from storage.objects.store import MediaStore
from storage.objects.upload_pieces import PiecewiseFile, UploadPiece, UploadPieces, remove_upload

pytestmark = pytest.mark.anyio

SOURCE = "sources/AAAAAAAAAAAA/1"
NAME = "one"
DATA = random.Random(3).randbytes(1000)


class Rows:
    """The rows of one upload, as the catalog keeps them."""

    def __init__(self) -> None:
        self.pieces: list[UploadPiece] = []

    async def find_pieces(self, name: str) -> Sequence[UploadPiece]:
        return tuple(self.pieces) if name == NAME else ()

    async def count_stored(self, name: str) -> int:
        return sum(each.size for each in self.pieces) if name == NAME else 0

    def record(self, file: PiecewiseFile) -> None:
        self.pieces += file.unrecorded
        file.recorded()


class PieceHost:
    """A process that receives uploads."""

    def __init__(self, store: MediaStore, rows: Rows, *, piece_bytes: int = 300) -> None:
        self.pieces = UploadPieces(store, piece_bytes=piece_bytes)
        self.rows = rows

    async def append(self, data: bytes, *, recorded: bool = True) -> int:
        """Append bytes in writes of 70; return how many are safe."""
        async with self.pieces.open(self.rows, NAME, wait_seconds=1) as file:
            await file.truncate(1 << 40)
            for start in range(0, len(data), 70):
                await file.write(data[start : start + 70])
            await file.flush()
            if recorded:
                self.rows.record(file)
            return await file.sync()

    async def gathered(self) -> bytes:
        async with self.pieces.open(self.rows, NAME, wait_seconds=1) as file:
            assert await file.gather() == file.path.stat().st_size
            return file.path.read_bytes()


async def test_three_hosts_receive_one_file_and_the_last_makes_it(media_store: MediaStore) -> None:
    rows = Rows()
    first, second, third = (PieceHost(media_store, rows) for _ in range(3))
    assert await first.append(DATA[:400]) == 400
    assert await second.append(DATA[400:410]) == 410
    assert await first.append(DATA[410:700]) == 700
    assert await second.append(DATA[700:]) == 1000
    for host in (third, first, second):
        assert await host.gathered() == DATA
    async with third.pieces.open(rows, NAME, wait_seconds=1) as file:
        await file.gather()
        await file.keep(SOURCE)
        await file.remove_remains()
    assert await media_store.get(SOURCE) == DATA
    assert await media_store.addresses(PIECES) == []


async def test_a_host_that_received_all_fetches_nothing(media_store: MediaStore) -> None:
    rows = Rows()
    host = PieceHost(media_store, rows)
    await host.append(DATA[:500])
    await host.append(DATA[500:])
    await media_store.delete_tree(upload_pieces(NAME))
    assert await host.gathered() == DATA
    with pytest.raises(ObjectMissing):  # another host needs the pieces
        await PieceHost(media_store, rows).gathered()


async def test_what_no_row_names_changes_nothing(media_store: MediaStore) -> None:
    """A host that had lost the upload without noticing wrote more of it."""
    rows = Rows()
    late, present = PieceHost(media_store, rows), PieceHost(media_store, rows)
    await late.append(DATA[:300])
    await late.append(bytes(500), recorded=False)
    assert await present.append(DATA[300:]) == 1000
    assert await late.append(b"") == 1000
    for host in (late, present, PieceHost(media_store, rows)):
        assert await host.gathered() == DATA


async def test_bytes_that_are_given_up_are_taken_back(media_store: MediaStore) -> None:
    rows = Rows()
    host = PieceHost(media_store, rows)
    await host.append(DATA[:100])
    async with host.pieces.open(rows, NAME, wait_seconds=1) as file:
        digest = hashlib.sha256()
        assert await file.truncate(100, digest) == 100
        await file.write(bytes(400))
        assert digest.digest() == hashlib.sha256(bytes(400)).digest()
        assert [(each.start, each.end) for each in file.unrecorded] == [(100, 500)]
        assert await file.truncate(100) == 100
        assert file.unrecorded == ()
        assert len(await media_store.addresses(PIECES)) == 1
        await file.write(DATA[100:])
        await file.flush()
        assert (file.position, await file.sync()) == (1000, 1000)
        rows.record(file)
    assert await host.gathered() == DATA


async def test_an_upload_that_was_never_in_pieces_begins_anew(media_store: MediaStore) -> None:
    async with PieceHost(media_store, Rows()).pieces.open(Rows(), NAME, wait_seconds=1) as file:
        assert await file.truncate(500) == 0
        assert await file.gather() == 0


async def test_one_request_of_a_process_has_it_at_a_time(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        host = PieceHost(objects, Rows())
        async with host.pieces.open(host.rows, NAME, wait_seconds=1):
            with pytest.raises(FileStillLocked):
                async with host.pieces.open(host.rows, NAME, wait_seconds=0.05):
                    pass
            async with host.pieces.open(host.rows, "two", wait_seconds=0.05):
                pass
        async with host.pieces.open(host.rows, NAME, wait_seconds=0.05):
            pass


async def test_a_disk_without_room_receives_and_cannot_gather(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        rows = Rows()
        host = UploadPieces(objects, min_free_bytes=1 << 60)
        async with host.open(rows, NAME, wait_seconds=1) as file:
            await file.truncate(0)
            await file.write(DATA)
            await file.flush()
            rows.record(file)
            assert not file.path.exists()
            with pytest.raises(StoreFull):
                await file.gather()
        assert await PieceHost(objects, rows).gathered() == DATA


async def test_a_local_copy_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as objects:
        rows = Rows()
        host = PieceHost(objects, rows)
        async with host.pieces.open(rows, NAME, wait_seconds=1) as file:
            file.path.mkdir()
        digest = hashlib.sha256()
        async with host.pieces.open(rows, NAME, wait_seconds=1) as file:
            await file.truncate(0, digest)
            await file.write(DATA)
            await file.flush()
            rows.record(file)
        assert digest.digest() == hashlib.sha256(DATA).digest()
        assert await host.gathered() == DATA


@pytest.mark.parametrize("kind", ["hangs", "cancelled"])
async def test_a_local_copy_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Opening it blocks, as it is a pipe without a reader, until the upload is complete."""
    if kind == "hangs":
        monkeypatch.setattr("storage.objects.upload_pieces._COPY_SECONDS", 0.05)
    with DiskObjects(tmp_path) as objects:
        rows = Rows()
        host = PieceHost(objects, rows, piece_bytes=len(DATA))
        async with host.pieces.open(rows, NAME, wait_seconds=1) as file:
            pipe = file.path
        os.mkfifo(pipe)
        os.link(pipe, tmp_path / "pipe")  # stays when the copy is deleted
        try:
            if kind == "hangs":
                assert await host.append(DATA) == len(DATA)
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await host.append(b"lost" * 250)
                assert await host.append(DATA) == len(DATA)
            assert await host.gathered() == DATA
        finally:
            os.close(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK))


async def test_a_hole_is_noticed(media_store: MediaStore) -> None:
    rows = Rows()
    host = PieceHost(media_store, rows)
    await host.append(DATA)
    del rows.pieces[1]
    with pytest.raises(StoreFailed, match="there is no piece at 350"):
        await host.gathered()


async def test_an_upload_is_removed_in_either_form(media_store: MediaStore) -> None:
    await media_store.put(upload_piece(NAME, 0, "a"), b"x")
    await media_store.put(upload_piece("other", 0, "a"), b"x")
    path = media_store.scratch.path(f"uploads/{NAME}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    await remove_upload(media_store, NAME)
    assert not path.exists()
    assert await media_store.addresses(PIECES) == [upload_piece("other", 0, "a")]
