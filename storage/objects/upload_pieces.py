"""Uploads that any of several hosts may continue: each piece is an object of its own.

A piece is written once, under a random name; which pieces make up an upload is in the catalog. So a
host that lost an upload to another, and does not know it yet, changes nothing: no row names its
pieces, and they are deleted with the upload. If a host dies, the client sends again what it had in
memory.

The process also keeps what passes through it in a file, so that it need not fetch it when all has
arrived. Nothing depends on that file: it is deleted with the process, when the disk is
nearly full or does not answer, or when another upload begins after it was idle for an hour.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from storage.objects.addresses import upload, upload_piece, upload_pieces
from storage.objects.at_once import do_each
from storage.objects.base import ObjectError, Objects, StoreFailed
from storage.objects.disk_threads import FILES
from storage.objects.incoming_file import check_free, in_thread, write_at
from storage.objects.resumable_file import Digest, FileStillLocked
from storage.objects.store import MediaStore

log = logging.getLogger(__name__)

# Held in memory by each upload under way. Sent one after the other: at 150 ms each, and 1 Gbit/s to
# this host and on to the bucket, an upload gets 240 Mbit/s.
PIECE_BYTES: Final = 8 << 20
_FETCHED_AT_ONCE: Final = 4
# A client that went away for longer has most likely continued at another host, or given up.
_IDLE_SECONDS: Final = 3600.0
# The local copy only saves requests: a disk that takes longer for a piece is not waited for.
_COPY_SECONDS: Final = 20.0
_TOKEN_BYTES: Final = 8


class UploadPiece(msgspec.Struct, frozen=True):
    """The `size` bytes of an upload from `start` on; `token` is in the name of its object."""

    start: int
    size: int
    token: str

    @property
    def end(self) -> int:
        """The offset of the byte after the last one."""
        return self.start + self.size


class PieceRows(Protocol):
    """The pieces in the catalog (`storage.catalog.uploads.repository.Uploads`)."""

    async def find_pieces(self, name: str) -> Sequence[UploadPiece]:
        """Return the pieces of an upload in their order."""
        ...

    async def count_stored(self, name: str) -> int:
        """Return how many bytes of an upload are in pieces."""
        ...


async def remove_upload(objects: Objects, name: str) -> None:
    """Delete the bytes of an upload, in a file (`storage.objects.resumable_file`) or in pieces.

    Raises:
        ObjectError: the store failed.
    """
    await objects.delete(upload(name))
    await objects.delete_tree(upload_pieces(name))


class _LocalCopy:
    """A file with those pieces of an upload that passed here; `tokens` are theirs, by start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens: dict[int, str] = {}
        self.lock = asyncio.Lock()
        self.used = 0.0

    def forget(self, start: int = 0) -> None:
        """Forget the pieces from `start` on."""
        for piece_start in [each for each in self.tokens if each >= start]:
            del self.tokens[piece_start]


class PiecewiseFile:
    """An upload that this process appends to. Only one task at a time may use it.

    `position` is the offset of the next byte, `unrecorded` the pieces that are stored, but in no
    row yet. `path` has all bytes after `gather`.
    """

    # How often a piece is stored, which takes a request; a host that dies loses as much.
    save_seconds: Final = 2.0
    # No earlier process can have moved it: it has no address of its own.
    is_relocated: Final = False

    def __init__(
        self,
        objects: MediaStore,
        rows: PieceRows,
        name: str,
        copy: _LocalCopy,
        *,
        min_free_bytes: int,
        piece_bytes: int,
    ) -> None:
        self.position = 0
        self.unrecorded: tuple[UploadPiece, ...] = ()
        self._objects = objects
        self._rows = rows
        self._name = name
        self._copy = copy
        self._min_free_bytes = min_free_bytes
        self._piece_bytes = piece_bytes
        self._written = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._digest: Digest | None = None

    @property
    def path(self) -> Path:
        """The file that has all bytes after `gather`."""
        return self._copy.path

    async def truncate(self, size: int, digest: Digest | None = None) -> int:
        """Continue after `size` bytes, less if fewer are in rows; return how many.

        Bytes written from now on are added to `digest`. Pieces without a row are given up.

        Raises:
            CatalogError: the catalog failed.
        """
        given_up, self.unrecorded = self.unrecorded, ()
        self._pieces, self._waiting, self._digest = [], 0, digest
        if given_up:
            with contextlib.suppress(ObjectError):  # they go with the upload
                await self._objects.delete_all([self._address(each) for each in given_up])
        self.position = self._written = min(size, await self._rows.count_stored(self._name))
        self._copy.forget(self.position)
        return self.position

    async def write(self, data: bytes) -> None:
        """Append bytes, which must not be changed afterwards.

        Raises:
            StoreFull, StoreFailed: the store failed.
        """
        self._pieces.append(data)
        self._waiting += len(data)
        self.position += len(data)
        if self._waiting >= self._piece_bytes:
            await self.flush()

    async def flush(self) -> None:
        """Store all received bytes as a piece.

        Raises:
            StoreFull, StoreFailed: as in `write`.
        """
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        if not pieces:
            return
        data = b"".join(pieces)
        piece = UploadPiece(self._written, len(data), secrets.token_hex(_TOKEN_BYTES))
        await self._objects.put(self._address(piece), data)
        self.unrecorded += (piece,)
        self._written = piece.end
        if self._digest is not None:
            # Not in a thread of the disk: all of these may be waiting for it.
            await asyncio.to_thread(self._digest.update, data)
        await self._keep(piece, data)

    async def sync(self) -> int:
        """Return how many bytes survive: those of all pieces."""
        return self._written

    def recorded(self) -> None:
        """Count the unrecorded pieces as recorded: rows have them now."""
        self.unrecorded = ()

    async def gather(self) -> int:
        """Bring all recorded bytes into the file at `path`; return how many.

        What other hosts received is fetched.

        Raises:
            CatalogError: the catalog failed.
            ObjectMissing: a piece is gone.
            StoreFull, StoreFailed: the bucket or this machine's disk failed.
        """
        copy, tokens = self._copy, self._copy.tokens
        pieces = await self._rows.find_pieces(self._name)
        size = 0
        for piece in pieces:
            if piece.start != size:
                raise StoreFailed(upload(self._name), f"there is no piece at {size}")
            size = piece.end
        missing = [each for each in pieces if tokens.get(each.start) != each.token]
        least = self._min_free_bytes and self._min_free_bytes + sum(each.size for each in missing)
        await in_thread(partial(_resize, copy.path, size, least))
        await do_each(missing, self._fetch, at_once=_FETCHED_AT_ONCE)
        return size

    async def keep(self, address: str) -> None:
        """Make the gathered file the object at `address`; its pieces stay until `remove_remains`.

        Raises:
            StoreFull, StoreFailed: as in `write`.
        """
        await self._objects.send(self.path, address)

    async def remove_remains(self) -> None:
        """Delete the pieces of a file that a row names now, as far as the store answers."""
        with contextlib.suppress(ObjectError):  # the cleanup of uploads deletes them
            await self.remove()

    async def remove(self) -> None:
        """Delete all pieces, and the file.

        Raises:
            StoreFailed: the store failed.
        """
        self._copy.forget()
        await in_thread(partial(self.path.unlink, missing_ok=True))
        await self._objects.delete_tree(upload_pieces(self._name))

    def _address(self, piece: UploadPiece) -> str:
        return upload_piece(self._name, piece.start, piece.token)

    async def _fetch(self, piece: UploadPiece) -> None:
        data = await self._objects.get(self._address(piece))
        if len(data) != piece.size:
            raise StoreFailed(self._address(piece), "it has another size than its row says")
        await in_thread(partial(write_at, self.path, data, piece.start))
        self._copy.tokens[piece.start] = piece.token

    async def _keep(self, piece: UploadPiece, data: bytes) -> None:
        """Add a piece to the local copy, if the disk has room and answers."""
        write = partial(_write_copy, self.path, data, piece.start, self._min_free_bytes)
        try:
            await in_thread(write, _COPY_SECONDS)
        except ObjectError as error:
            if self._copy.tokens:
                log.info("upload not kept as a copy", extra={"cause": error.reason})
            self._abandon_copy()
        except asyncio.CancelledError:
            self._abandon_copy()
            raise
        else:
            self._copy.tokens[piece.start] = piece.token

    def _abandon_copy(self) -> None:
        """Begin a new local copy: a thread may still write to the file of this one."""
        FILES.submit(partial(_unlink, self.path))
        self._copy.forget()
        self._copy.path = self._objects.scratch.temporary()


class UploadPieces:
    """The uploads that this process appends to, and its local copies of them.

    `min_free_bytes` of the scratch's disk stay free.
    """

    def __init__(
        self, objects: MediaStore, *, min_free_bytes: int = 0, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._objects = objects
        self._min_free_bytes = min_free_bytes
        self._piece_bytes = piece_bytes
        self._copies: dict[str, _LocalCopy] = {}

    @asynccontextmanager
    async def open(
        self, rows: PieceRows, name: str, *, wait_seconds: float
    ) -> AsyncGenerator[PiecewiseFile]:
        """Open an upload for the length of the block; a process has it open once at a time.

        Raises:
            FileStillLocked: an earlier request of this process did not end within `wait_seconds`.
        """
        clock = asyncio.get_running_loop().time
        self._forget_idle(clock() - _IDLE_SECONDS)
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = _LocalCopy(self._objects.scratch.temporary())
        copy.used = clock()
        try:
            async with asyncio.timeout(wait_seconds):
                await copy.lock.acquire()
        except TimeoutError:
            raise FileStillLocked from None
        try:
            yield PiecewiseFile(
                self._objects,
                rows,
                name,
                copy,
                min_free_bytes=self._min_free_bytes,
                piece_bytes=self._piece_bytes,
            )
        finally:
            copy.used = clock()
            copy.lock.release()

    def _forget_idle(self, since: float) -> None:
        """Delete local copies that were not used since a time of the loop's clock."""
        idle = [
            name
            for name, copy in self._copies.items()
            if copy.used < since and not copy.lock.locked()
        ]
        for copy in [self._copies.pop(name) for name in idle]:
            FILES.submit(partial(_unlink, copy.path))


def _write_copy(path: Path, data: bytes, start: int, min_free_bytes: int) -> None:
    """Write a piece to a local copy; raise ENOSPC if less of the disk is free."""
    check_free(path.parent, min_free_bytes)
    write_at(path, data, start)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # it goes with the process
        path.unlink(missing_ok=True)


def _resize(path: Path, size: int, min_free_bytes: int) -> None:
    """Set the size of a file, created if needed; raise ENOSPC if less of the disk is free."""
    check_free(path.parent, min_free_bytes)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, size)
    finally:
        os.close(file)
