"""Receives the bytes of resumable uploads: appends them to the file, and finishes the upload.

The latest request appends. An earlier one is stopped, at once in the same process and within
seconds in another one. Received bytes are kept however a request ends. The offset is recorded in
the catalog every second or two, after the bytes are safe, and is published on the video's channel
then. Bytes are safe on this machine's disk or, where several hosts receive uploads, in the store:
there the next request may reach another host, and the host that gets the last byte makes the file.
"""

import asyncio
import contextlib
import hmac
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import msgspec

from api.http.errors import ApiError, invalid
from api.http.multipart import MIN_PROGRESS_BYTES
from api.http.parameters import missing
from api.http.tus import CHECKSUM_MISMATCH, Patch
from api.intake.upload_intake import (
    FIRST_GENERATION,
    UploadIntake,
    admitted,
    require_room,
    store_errors_translated,
)
from api.intake.writer_turns import Turn
from api.uploads.replace_file import replace_source
from media.fair_share import Holder
from media.ticks import MICROSECONDS
from storage.catalog.events.kinds import UploadDeletedEvent, UploadRefusedEvent
from storage.catalog.records.common import Change
from storage.catalog.records.uploads import UploadRecord
from storage.catalog.records.videos import VideoFile, WholeVideo
from storage.catalog.uploads.repository import Uploads
from storage.errors import CatalogError, StorageError, UploadHeld, UploadLost
from storage.file_intake import FileRefused, probe_source
from storage.objects import addresses
from storage.objects.base import ObjectError, StoreFull
from storage.objects.resumable_file import FileStillLocked, ResumableFile, open_resumable_file
from storage.objects.upload_pieces import PiecewiseFile

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25  # how often a request checks whether its turn is over
# For an earlier request of this process to save its bytes and release the file.
_LOCAL_LOCK_SECONDS: Final = 1.5
# The same for one of another process.
_REMOTE_LOCK_SECONDS: Final = 10.0
# A host that makes a file of an upload renews its hold three times in this time. If it dies,
# another one may begin once the hold has expired.
_HOLD_SECONDS: Final = 15.0
# An upload whose bytes are not recorded as they come is kept from expiring this often.
_EXTENDED_US: Final = 60 * MICROSECONDS

Receive = Callable[[], Awaitable[Any]]  # Any: ASGI's own messages
_File = ResumableFile | PiecewiseFile


def _too_long(most: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"This upload may have at most {most} bytes."
    )


def _overtaken() -> ApiError:
    return ApiError(
        HTTPStatus.LOCKED,
        "Another request is continuing this upload.",
        headers={"Connection": "close"},
    )


class _OpenUpload:
    """An upload that this request appends to; `record` is its present state."""

    def __init__(self, record: UploadRecord, writer: str, turn: Turn, file: _File) -> None:
        self.record = record
        self.writer = writer
        self.turn = turn
        self.file = file


class UploadReceiver(msgspec.Struct, frozen=True, kw_only=True):
    """Receives the bytes of uploads for one caller.

    An upload counts for `holders`; `by` is the number of the caller's token, None for the user of a
    link.
    """

    uploads: Uploads
    intake: UploadIntake
    clock_us: Callable[[], int]
    holders: tuple[Holder, ...]
    by: int | None

    async def receive(self, name: str, patch: Patch, receive: Receive) -> UploadRecord:
        """Append the body of a request, and return the upload after that.

        Raises:
            ApiError: 404 or 410 if there is no such upload, 409 if it has another offset, 400, 408,
                413, 423, 460 or 503 if the bytes cannot be received, 422 if the whole file is no
                video.
        """
        try:
            async with admitted(self.intake, self.holders), self._open(name) as upload:
                await self._check_offset(upload, patch)
                if not upload.record.done:
                    await self._append(upload, patch, receive)
                    await self._finish(upload)
                return upload.record
        except (FileStillLocked, UploadHeld) as error:
            raise _overtaken() from error

    async def offset(self, name: str) -> UploadRecord:
        """Stop the request that appends to an upload, if there is one, and return the upload.

        Raises:
            ApiError: 404 or 410 if there is no such upload, 422 if the whole file is no video, 423
                while another request makes a video of it.
        """
        with store_errors_translated():
            try:
                async with self._open(name) as upload:
                    # All bytes arrived, and the process died before it recorded the video.
                    await self._finish(upload)
                    return upload.record
            except (FileStillLocked, UploadHeld):
                pass
            except ApiError as error:
                if error.status_code != HTTPStatus.LOCKED:
                    raise
            # Other requests compete for the file; the recorded offset is always valid. But a client
            # that has sent all takes it for success, and would not retry if the finish failed.
            record = await self._usable(await self.uploads.find(name))
            if record.whole and not record.done:
                raise _overtaken()
            return record

    async def end(self, name: str) -> None:
        """Delete an upload and its bytes.

        Raises:
            ApiError: 404 or 410 if there is no such upload, 423 if another request keeps its file.
        """
        try:
            with store_errors_translated():
                async with self._open(name) as upload:
                    if not await self.uploads.remove(
                        name, UploadDeletedEvent, Change(self.clock_us(), by=self.by)
                    ):
                        raise missing("upload")
                    if not upload.record.done:
                        await _remove(upload.file)
        except (FileStillLocked, UploadHeld) as error:
            raise _overtaken() from error

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncGenerator[_OpenUpload]:
        """Hold the right to append to an upload during the block."""
        writer = secrets.token_hex(16)
        with self.intake.writers.turn(name) as turn:
            record = await self._usable(await self.uploads.find(name))
            async with AsyncExitStack() as stack:
                try:
                    file = await stack.enter_async_context(self._file(record, _LOCAL_LOCK_SECONDS))
                    latest = await self.uploads.claim(name, writer)
                except FileStillLocked:
                    if record.whole:  # it is on its way to the store, which may take minutes
                        raise
                    # Locked by another process, which reads the claim from the catalog.
                    await self.uploads.claim(name, writer)
                    file = await stack.enter_async_context(self._file(record, _REMOTE_LOCK_SECONDS))
                    latest = await self.uploads.find_claimed(name, writer)
                if latest is None:
                    raise await self._lost_response(name, file)
                if latest.done and not file.is_relocated:  # opening has just created it
                    await file.remove()
                yield _OpenUpload(latest, writer, turn, file)

    def _file(self, record: UploadRecord, seconds: float) -> AbstractAsyncContextManager[_File]:
        if self.intake.pieces is not None:
            return self.intake.pieces.open(self.uploads, record.name, wait_seconds=seconds)
        return open_resumable_file(
            self.intake.objects,
            addresses.upload(record.name),
            _source_address(record),
            min_free_bytes=self.intake.least_free,
            wait_seconds=seconds,
        )

    async def _usable(self, record: UploadRecord | None) -> UploadRecord:
        if record is None:
            raise missing("upload")
        if not record.done and record.expires_us <= self.clock_us():
            raise ApiError(HTTPStatus.GONE, "This upload has expired.")
        return record

    async def _lost_response(self, name: str, file: _File) -> ApiError:
        """Return the response for an upload that this request lost; clean up if it was deleted."""
        if await self.uploads.find(name) is not None:
            return _overtaken()
        await _remove(file)
        return missing("upload")

    async def _check_offset(self, upload: _OpenUpload, patch: Patch) -> None:
        """Check that a request continues the upload where it ends, and record a deferred length."""
        if not upload.record.done:
            at = await upload.file.truncate(upload.record.received)
            if at != upload.record.received:  # bytes that a power failure lost
                await self._advance(upload, at)
        record = upload.record
        if patch.offset != record.received:
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"The upload is at offset {record.received}, not {patch.offset}.",
                headers={"Upload-Offset": str(record.received)},
            )
        if patch.length is None or patch.length == record.length:
            return
        if record.length is not None or patch.length < record.received:
            message = "Upload-Length differs from the length declared earlier."
            raise ApiError(HTTPStatus.BAD_REQUEST, message)
        if patch.length > record.most_bytes:
            raise _too_long(record.most_bytes)
        await require_room(self.intake, patch.length - record.received)
        now_us = self.clock_us()
        if not await self.uploads.set_length(record.name, upload.writer, patch.length, now_us):
            raise await self._lost_response(record.name, upload.file)
        upload.record = msgspec.structs.replace(record, length=patch.length)

    async def _append(self, upload: _OpenUpload, patch: Patch, receive: Receive) -> None:
        """Append a body; with a checksum, all of it or nothing."""
        checksum, file, start = patch.checksum, upload.file, upload.record.received
        if checksum is None:
            try:
                await self._write_body(upload, receive)
            except (ApiError, StoreFull):
                await self._save(upload)
                raise
            await self._save(upload)
            return
        digest = checksum.new_digest()
        try:
            await file.truncate(start, digest)
            await self._write_body(upload, receive, whole=True)
            await file.flush()
            _check_digest(digest.digest(), checksum.digest)
        except (ApiError, StoreFull):
            await file.truncate(start)
            raise
        await self._save(upload)

    async def _write_body(
        self, upload: _OpenUpload, receive: Receive, *, whole: bool = False
    ) -> None:
        """Write a body to the file; record progress now and then unless it counts as a `whole`."""
        record, file = upload.record, upload.file
        most = record.most_bytes if record.length is None else record.length
        clock = asyncio.get_running_loop().time
        recorded = clock()
        async for piece in _pieces(receive, upload.turn, self.intake.quiet_seconds):
            room = most - file.position
            await file.write(piece[:room])
            if len(piece) > room:
                raise _too_long(most)
            if clock() - recorded < file.save_seconds:
                continue
            if whole or file.position == upload.record.received:
                await self._stay(upload)
            else:
                await self._save(upload)
            recorded = clock()

    async def _stay(self, upload: _OpenUpload) -> None:
        """Check that this request still appends, and keep the upload from expiring meanwhile.

        Nothing is recorded of bytes that count all together or not at all, and they may take
        longer to arrive than an upload is kept without any.
        """
        record, expires_us = upload.record, self.clock_us() + self.intake.keep_us
        if expires_us - record.expires_us < min(_EXTENDED_US, self.intake.keep_us // 4):
            if await self.uploads.find_claimed(record.name, upload.writer) is None:
                raise await self._lost_response(record.name, upload.file)
            return
        if not await self.uploads.extend(record.name, upload.writer, expires_us):
            raise await self._lost_response(record.name, upload.file)
        upload.record = msgspec.structs.replace(record, expires_us=expires_us)

    async def _save(self, upload: _OpenUpload) -> None:
        """Sync the received bytes to disk, and record their number."""
        try:
            await upload.file.flush()
        finally:
            synced = await upload.file.sync()
            if synced != upload.record.received:
                await self._advance(upload, synced)

    async def _advance(self, upload: _OpenUpload, received: int) -> None:
        now_us = self.clock_us()
        expires_us = now_us + self.intake.keep_us
        if not await self.uploads.record_received(
            upload.record, upload.writer, received, expires_us, now_us, upload.file.unrecorded
        ):
            raise await self._lost_response(upload.record.name, upload.file)
        upload.file.recorded()
        upload.record = msgspec.structs.replace(
            upload.record, received=received, expires_us=expires_us
        )

    async def _finish(self, upload: _OpenUpload) -> None:
        """Give the video its file, if all bytes have arrived."""
        record, writer = upload.record, upload.writer
        if record.done or not record.whole:
            return
        if self.intake.pieces is None:
            await self._make(upload)
            return
        if not await self.uploads.hold(record.name, writer, _HOLD_SECONDS):
            raise await self._lost_response(record.name, upload.file)
        failure: ApiError | StorageError | None = None
        async with asyncio.TaskGroup() as tasks:
            holding = tasks.create_task(self._renew_hold(record.name, writer))
            try:
                await self._make(upload)
            # Raised in the group they would come out as an ExceptionGroup.
            except (ApiError, StorageError) as error:
                failure = error
            finally:
                holding.cancel()
        if not upload.record.done:
            with contextlib.suppress(CatalogError):  # then it expires
                await self.uploads.hold(record.name, writer, 0)
        if failure is not None:
            raise failure

    async def _renew_hold(self, name: str, writer: str) -> None:
        """Keep other hosts from making the same file meanwhile."""
        while True:
            await asyncio.sleep(_HOLD_SECONDS / 3)
            with contextlib.suppress(CatalogError):
                await self.uploads.hold(name, writer, _HOLD_SECONDS)

    async def _make(self, upload: _OpenUpload) -> None:
        """Make a file of all bytes, and record it."""
        record, file = upload.record, upload.file
        if file.is_relocated:  # by a process that died before it recorded the move
            await file.truncate(record.received)
        if await file.gather() != record.received:
            await self._advance(upload, await file.truncate(record.received))
            return
        change = Change(self.clock_us(), by=self.by, keep_us=self.intake.trash_us)
        try:
            probed = await probe_source(
                self.intake.probe, file.path, _source_address(record), record.received
            )
        except FileRefused as error:
            await self.uploads.remove(record.name, UploadRefusedEvent, change)
            await _remove(file)
            raise invalid({"video": [error.reason]}) from error
        await file.keep(probed.source)
        if record.replaces:
            await self._replace(upload, probed, change)
        else:
            await self._add(upload, probed, change)
        await file.remove_remains()
        upload.record = msgspec.structs.replace(record, state="done")

    async def _add(self, upload: _OpenUpload, file: VideoFile, change: Change) -> None:
        """Record the file of a new video."""
        record = upload.record
        whole = await self.uploads.finish(record.name, upload.writer, file, change)
        if whole is None:
            raise await self._lost_response(record.name, upload.file)
        log.info("uploaded", extra={"video": record.hash, "bytes": record.received})

    async def _replace(self, upload: _OpenUpload, file: VideoFile, change: Change) -> None:
        """Replace the file of a video; an upload that is too late for that is deleted."""
        record = upload.record

        async def record_file(file: VideoFile) -> tuple[WholeVideo, str | None] | None:
            return await self.uploads.replace(record, upload.writer, file, change)

        try:
            await replace_source(self.intake.objects, record.hash, file, record_file)
        except UploadLost as error:
            raise await self._lost_response(record.name, upload.file) from error
        except ApiError:
            await self.uploads.remove(record.name, UploadRefusedEvent, change)
            # In a bucket the file is a copy; what came is still here.
            await _remove(upload.file)
            raise


async def _remove(file: _File) -> None:
    """Delete the bytes of an upload whose row is gone: while the store is away, they go later."""
    with contextlib.suppress(ObjectError):
        await file.remove()


def _source_address(record: UploadRecord) -> str:
    """Return the address of the finished file, which no other upload has."""
    if record.replaces:
        return addresses.replaced_source(record.hash, record.name)
    return addresses.video_source(record.hash, FIRST_GENERATION)


def _check_digest(actual: bytes, announced: bytes) -> None:
    if not hmac.compare_digest(actual, announced):
        raise ApiError(
            CHECKSUM_MISMATCH,  # pyright: ignore[reportArgumentType]  # a status of tus
            "The bytes do not match Upload-Checksum; none were kept.",
        )


async def _pieces(
    receive: Receive, turn: Turn, quiet_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield a body as it arrives, and b"" every `_POLL_SECONDS` while nothing does.

    Only the time spent waiting for the client counts towards `quiet_seconds`.
    """
    clock = asyncio.get_running_loop().time
    remaining, received = quiet_seconds, 0
    while not turn.over:
        began = clock()
        try:
            async with asyncio.timeout(min(_POLL_SECONDS, remaining)):
                message = await receive()
        except TimeoutError:
            remaining -= clock() - began
            if remaining <= 0:
                raise ApiError(
                    HTTPStatus.REQUEST_TIMEOUT,
                    "The body came too slowly; what came is kept.",
                    headers={"Connection": "close"},
                ) from None
            yield b""
            continue
        remaining -= clock() - began
        if message["type"] == "http.disconnect":
            raise ApiError(HTTPStatus.BAD_REQUEST, "The body broke off; what came is kept.")
        piece = message.get("body", b"")
        received += len(piece)
        if received >= MIN_PROGRESS_BYTES:
            remaining, received = quiet_seconds, 0
        # A body that has arrived is read before it counts as late.
        remaining = max(remaining, _POLL_SECONDS / 10)
        yield piece
        if not message.get("more_body", False):
            return
    raise _overtaken()
