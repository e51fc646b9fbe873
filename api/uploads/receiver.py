"""The bytes of a resumable upload on their way to the disk, and what becomes of them.

Whoever comes last appends: whoever did before is told to stop, at once within a process and within
a second from another one. What came stays, whatever ends a request; the catalog is told of it once
a second, after it is on the disk, and viewers of the video's channel with it.
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
from api.uploads.replace_file import settled
from api.uploads.single_request import Intake, kept, stored
from api.uploads.writer_turns import Turn
from storage.catalog.records.uploads import UploadRecord
from storage.catalog.records.videos import Landed, WholeVideo
from storage.catalog.uploads.repository import Uploads
from storage.errors import UploadLost
from storage.file_intake import FileRefused, probe_source
from storage.objects import addresses
from storage.objects.base import ObjectError, StoreFull
from storage.objects.resumable_file import FileStillLocked, ResumableFile, open_resumable_file

__all__ = ["Receiver", "gone"]

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25  # until whoever is told to stop has heard it
# Whoever appends in this process saves what came and leaves, within so long.
_LEAVE_SECONDS: Final = 1.5
_WAIT_SECONDS: Final = 10.0
_TELL_SECONDS: Final = 1.0  # between two looks at the catalog
# What the events are called.
_DELETED, _REFUSED = "upload deleted", "upload refused"
_FIRST: Final = 1  # the generation of a video's first file

Receive = Callable[[], Awaitable[Any]]  # Any: ASGI's own messages


def gone() -> ApiError:
    """Return the refusal where there is no such upload (any more)."""
    return missing("upload")


def _too_long(most: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"This upload may have at most {most} bytes."
    )


def _overtaken() -> ApiError:
    return ApiError(
        HTTPStatus.LOCKED,
        "Another request goes on with this upload.",
        headers={"Connection": "close"},
    )


class _Held:
    """An upload whose writer we are; `record` is how it stands."""

    def __init__(self, record: UploadRecord, writer: str, turn: Turn, file: ResumableFile) -> None:
        self.record = record
        self.writer = writer
        self.turn = turn
        self.file = file


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """Takes the bytes of uploads; `by` is the number of the caller's token, None for a link's.

    `caller` is whom the gate counts.
    """

    uploads: Uploads
    intake: Intake
    clock_us: Callable[[], int]
    caller: int
    by: int | None

    async def receive(self, name: str, patch: Patch, receive: Receive) -> UploadRecord:
        """Append the body of a request; return the upload as it stands then.

        Raises:
            ApiError: 404 or 410 where there is no such upload, 409 where it has another offset,
                400, 408, 413, 423, 460 and 503 for what goes wrong with the bytes, 422 where they
                come to no video.
        """
        try:
            async with stored(self.intake, self.caller), self._held(name) as held:
                await self._agree(held, patch)
                if not held.record.done:
                    await self._append(held, patch, receive)
                    await self._finish(held)
                return held.record
        except FileStillLocked as error:
            raise _overtaken() from error

    async def offset(self, name: str) -> UploadRecord:
        """Return how an upload stands, after whoever appends to it was told to stop.

        Raises:
            ApiError: 404 or 410 where there is no such upload, 422 where it came to no video.
        """
        with kept():
            try:
                async with self._held(name) as held:
                    # All of it came, and the process died before it was a video.
                    await self._finish(held)
                    return held.record
            except FileStillLocked:
                pass
            except ApiError as error:
                if error.status_code != HTTPStatus.LOCKED:
                    raise
            # Others want it too: what is written down is true at any time.
            return await self._usable(await self.uploads.find(name))

    async def end(self, name: str) -> None:
        """Take an upload and its bytes away.

        Raises:
            ApiError: 404 or 410 where there is no such upload, 423 where its bytes are not let go
                of.
        """
        try:
            with kept():
                async with self._held(name) as held:
                    if not await self.uploads.remove(name, _DELETED, self.clock_us(), by=self.by):
                        raise gone()
                    if not held.record.done:
                        await held.file.remove()
        except FileStillLocked as error:
            raise _overtaken() from error

    # -- an upload that is ours -------------------------------------------------------------------

    @asynccontextmanager
    async def _held(self, name: str) -> AsyncGenerator[_Held]:
        """Be the one who appends for the length of the block."""
        writer = secrets.token_hex(16)
        with self.intake.writers.turn(name) as turn:
            record = await self._usable(await self.uploads.find(name))
            async with AsyncExitStack() as stack:
                try:
                    file = await stack.enter_async_context(self._file(record, _LEAVE_SECONDS))
                    latest = await self.uploads.claim(name, writer)
                except FileStillLocked:
                    # By another process, which hears of it through the catalog.
                    await self.uploads.claim(name, writer)
                    file = await stack.enter_async_context(self._file(record, _WAIT_SECONDS))
                    latest = await self.uploads.held(name, writer)
                if latest is None:
                    raise await self._lost(name, file)
                if latest.done and not file.is_relocated:  # it was made by looking for it
                    await file.remove()
                yield _Held(latest, writer, turn, file)

    def _file(
        self, record: UploadRecord, seconds: float
    ) -> AbstractAsyncContextManager[ResumableFile]:
        return open_resumable_file(
            self.intake.objects,
            addresses.upload(record.name),
            _place(record),
            min_free_bytes=self.intake.least_free,
            wait_seconds=seconds,
        )

    async def _usable(self, record: UploadRecord | None) -> UploadRecord:
        if record is None:
            raise gone()
        if not record.done and record.expires_us <= self.clock_us():
            raise ApiError(HTTPStatus.GONE, "The time of this upload is over.")
        return record

    async def _lost(self, name: str, file: ResumableFile) -> ApiError:
        """Say why an upload is not ours any more; of one that is gone no byte stays."""
        if await self.uploads.find(name) is not None:
            return _overtaken()
        with contextlib.suppress(ObjectError):
            await file.remove()
        return gone()

    async def _agree(self, held: _Held, patch: Patch) -> None:
        """See that a request fits to how the upload stands."""
        if not held.record.done:
            at = await held.file.truncate(held.record.received)
            if at != held.record.received:  # what was on no disk when the power went
                await self._advance(held, at)
        record = held.record
        if patch.offset != record.received:
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"The upload stands at {record.received} bytes, not at {patch.offset}.",
                headers={"Upload-Offset": str(record.received)},
            )
        if patch.length is None or patch.length == record.length:
            return
        if record.length is not None or patch.length < record.received:
            raise ApiError(HTTPStatus.BAD_REQUEST, "Upload-Length is another than it was.")
        if patch.length > record.most_bytes:
            raise _too_long(record.most_bytes)
        now_us = self.clock_us()
        if not await self.uploads.declare(record.name, held.writer, patch.length, now_us):
            raise await self._lost(record.name, held.file)
        held.record = msgspec.structs.replace(record, length=patch.length)

    async def _append(self, held: _Held, patch: Patch, receive: Receive) -> None:
        """Write a body down; with a checksum all of it counts or nothing."""
        checksum, file, start = patch.checksum, held.file, held.record.received
        if checksum is None:
            try:
                await self._pour(held, receive)
            except (ApiError, StoreFull):
                await self._save(held)
                raise
            await self._save(held)
            return
        digest = checksum.new_digest()
        try:
            await file.truncate(start, digest)
            await self._pour(held, receive, whole=True)
            await file.flush()
            _compare(digest.digest(), checksum.digest)
        except (ApiError, StoreFull):
            await file.truncate(start)
            raise
        await self._save(held)

    async def _pour(self, held: _Held, receive: Receive, *, whole: bool = False) -> None:
        """Take what comes to the file, and tell of it now and then unless it counts as a whole."""
        record, file = held.record, held.file
        most = record.most_bytes if record.length is None else record.length
        clock = asyncio.get_running_loop().time
        told = clock()
        async for piece in _pieces(receive, held.turn, self.intake.quiet_seconds):
            room = most - file.position
            await file.write(piece[:room])
            if len(piece) > room:
                raise _too_long(most)
            if clock() - told < _TELL_SECONDS:
                continue
            if whole or file.position == held.record.received:
                if await self.uploads.held(record.name, held.writer) is None:
                    raise await self._lost(record.name, file)
            else:
                await self._save(held)
            told = clock()

    async def _save(self, held: _Held) -> None:
        """Have all that came be safe, and write down how much that is."""
        try:
            await held.file.flush()
        finally:
            safe = await held.file.sync()
            if safe != held.record.received:
                await self._advance(held, safe)

    async def _advance(self, held: _Held, received: int) -> None:
        now_us = self.clock_us()
        expires_us = now_us + self.intake.keep_us
        if not await self.uploads.advance(held.record, held.writer, received, expires_us, now_us):
            raise await self._lost(held.record.name, held.file)
        held.record = msgspec.structs.replace(held.record, received=received, expires_us=expires_us)

    async def _finish(self, held: _Held) -> None:
        """Make a video of an upload of which all has come."""
        record, file = held.record, held.file
        if record.done or not record.whole:
            return
        if file.is_relocated:  # by one who died before it was written down
            await file.truncate(record.received)
        if file.size() != record.received:
            await self._advance(held, await file.truncate(record.received))
            return
        now_us = self.clock_us()
        try:
            landed = await probe_source(
                self.intake.probe, file.path, _place(record), record.received
            )
        except FileRefused as error:
            await self.uploads.remove(record.name, _REFUSED, now_us, by=self.by)
            await file.remove()
            raise invalid({"video": [error.reason]}) from error
        await file.relocate(self.intake.objects.path(landed.source))
        if record.replaces:
            await self._replace(held, landed, now_us)
        else:
            await self._add(held, landed, now_us)
        held.record = msgspec.structs.replace(record, state="done")

    async def _add(self, held: _Held, file: Landed, now_us: int) -> None:
        """Give a new video its file."""
        record = held.record
        whole = await self.uploads.finish(record.name, held.writer, file, now_us, by=self.by)
        if whole is None:
            raise await self._lost(record.name, held.file)
        log.info("uploaded", extra={"video": record.hash, "bytes": record.received})

    async def _replace(self, held: _Held, file: Landed, now_us: int) -> None:
        """Give a video another file; of an upload that comes too late for that nothing stays."""
        record = held.record

        async def write(file: Landed) -> tuple[WholeVideo, str | None] | None:
            return await self.uploads.replace(record, held.writer, file, now_us, by=self.by)

        try:
            await settled(self.intake.objects, record.hash, file, write)
        except UploadLost as error:
            raise await self._lost(record.name, held.file) from error
        except ApiError:
            await self.uploads.remove(record.name, _REFUSED, now_us, by=self.by)
            raise


def _place(record: UploadRecord) -> str:
    """Return the address that an upload's file gets in the end; nobody else's has that name."""
    if record.replaces:
        return addresses.replaced_source(record.hash, record.name)
    return addresses.video_source(record.hash, _FIRST)


def _compare(found: bytes, announced: bytes) -> None:
    if not hmac.compare_digest(found, announced):
        raise ApiError(
            CHECKSUM_MISMATCH,  # pyright: ignore[reportArgumentType]  # a number of tus' own
            "The bytes do not come to Upload-Checksum: none of them was kept.",
        )


async def _pieces(
    receive: Receive, turn: Turn, quiet_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield a body as it comes, and b"" now and then while nothing does.

    Only the time that the client is waited for counts against it.
    """
    clock = asyncio.get_running_loop().time
    left, came = quiet_seconds, 0
    while not turn.over:
        began = clock()
        try:
            async with asyncio.timeout(min(_LOOK_SECONDS, left)):
                message = await receive()
        except TimeoutError:
            left -= clock() - began
            if left <= 0:
                raise ApiError(
                    HTTPStatus.REQUEST_TIMEOUT,
                    "The body came too slowly; what came is kept.",
                    headers={"Connection": "close"},
                ) from None
            yield b""
            continue
        left -= clock() - began
        if message["type"] == "http.disconnect":
            # Nobody reads the answer.
            raise ApiError(HTTPStatus.BAD_REQUEST, "The body broke off; what came is kept.")
        piece = message.get("body", b"")
        came += len(piece)
        if came >= MIN_PROGRESS_BYTES:
            left, came = quiet_seconds, 0
        left = max(left, _LOOK_SECONDS / 10)  # what is there is taken before it is called late
        yield piece
        if not message.get("more_body", False):
            return
    raise _overtaken()
