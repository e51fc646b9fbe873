"""Commands from the API to the ingest role, which may be another process.

A command is a row in the catalog (`storage.catalog.streams.commands`), written in the transaction
of the change that needs it. The client waits for the answer for a bounded time; the change holds
whether or not the answer arrives. Times are seconds.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from litestar.di import NamedDependency

from api.ports import MediaRemover
from media.no_op import do_nothing
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.streams.commands import (
    CommandKind,
    CommandRecord,
    CommandStatus,
    StreamCommand,
)

# The ingest role polls four times a second: if it has not taken a command by then, it is down.
TAKEN_SECONDS: Final = 2.0
# For the engine to write its last segments. A command that takes longer is reported as unfinished.
DONE_SECONDS: Final = 10.0
# Detection of a lost encoder may be set to 30 s. A drill cuts the encoder off at once, so it needs
# the time until the backup's next keyframe, and the delay of the pipeline.
DRILL_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05


class IngestClient:
    """Sends commands to the ingest role and waits for their answers.

    `wake_up` wakes an ingest role that runs in this process; one in another process polls. `media`
    removes the media of deleted streams while no ingest role runs.
    """

    def __init__(
        self,
        catalog: Catalog,
        media: MediaRemover | None = None,
        wake_up: Callable[[], None] = do_nothing,
        *,
        taken_seconds: float = TAKEN_SECONDS,
    ) -> None:
        self.taken_seconds = taken_seconds
        self._catalog = catalog
        self._media = media
        self._wake_up = wake_up

    async def wait(
        self, command: int, *, done_seconds: float = DONE_SECONDS
    ) -> CommandRecord | None:
        """Return a command once it is answered, or once its time is up.

        Its time is up if it is not taken within `taken_seconds`, or not done `done_seconds` later.
        """
        self._wake_up()
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            record = await self._catalog.commands.find(command)
            if record is None or record.status in (CommandStatus.DONE, CommandStatus.LATE):
                return record
            is_taken = record.status is CommandStatus.TAKEN
            if clock() - began >= self.taken_seconds + (done_seconds if is_taken else 0.0):
                return record
            await asyncio.sleep(_POLL_SECONDS)

    async def wait_or_withdraw(
        self, command: int, now_us: int, *, done_seconds: float = DONE_SECONDS
    ) -> CommandRecord | None:
        """Return a command with a deadline as `wait` does; withdraw it if it was not taken."""
        record = await self.wait(command, done_seconds=done_seconds)
        if record is None or record.status is not CommandStatus.WAITING:
            return record
        if not await self._catalog.commands.withdraw(command, now_us):
            # It was taken at the last moment.
            return await self.wait(command, done_seconds=done_seconds)
        return await self._catalog.commands.find(command)

    async def report(
        self, stream: StreamRecord, change: Change
    ) -> dict[str, Any] | None:  # Any: JSON, a `media.encoder_report.StreamReport`
        """Return what a stream's encoders send now; None if no answer came in `taken_seconds`.

        The command is deleted in any case: a report leaves nothing in the catalog.
        """
        command = StreamCommand(
            stream=stream.id,
            hash=stream.hash,
            kind=CommandKind.REPORT,
            deadline_us=self.deadline_us(change.now_us),
            by=change.by,
        )
        number = await self._catalog.commands.add(command, change.now_us)
        try:
            record = await self.wait(number, done_seconds=0.0)
        finally:
            await self._catalog.commands.remove(number)
        is_done = record is not None and record.status is CommandStatus.DONE
        return record.answer if record is not None and is_done else None

    def deadline_us(self, now_us: int) -> int:
        """Return the moment until which a command issued now may be taken."""
        return now_us + round(self.taken_seconds * MICROSECONDS)

    async def finish_removal(self, command: int, hash_: str, *, keeps_media: bool = False) -> None:
        """Wait until a deleted stream has ended, then remove its media, or withdraw them."""
        await self.wait(command)
        if self._media is None:
            return
        if keeps_media:
            await self._media.withdraw([hash_])
        else:
            await self._media.remove([hash_])


GivenIngest = NamedDependency[IngestClient]  # of a handler
