"""How the API asks the process that takes encoders in, and waits for its answer.

What is asked stands in rows (`storage.catalog.streams.commands`), written with the change that
makes it due. Times are seconds; how long a caller waits for what takes long is bounded, and the
change holds whether the answer came or not.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from api.ports import MediaRemover
from media.no_op import do_nothing
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.common import StreamRecord
from storage.catalog.streams.commands import Command, CommandKind, CommandRecord, Standing

__all__ = ["DRILL_SECONDS", "TAKEN_SECONDS", "Ingest"]

# An ingest looks four times a second: who has not taken a command by then is not there.
TAKEN_SECONDS: Final = 2.0
# An engine's last segments and the disk; what takes longer is told as it stands.
DONE_SECONDS: Final = 10.0
# Detecting a lost encoder may be set to 30 s; a drill cuts one off at once, so it takes the
# backup's next keyframe and what is in the pipe.
DRILL_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


class Ingest:
    """The process that takes encoders in, as the API reaches it.

    `nudge` wakes an ingest that runs in this process; one in another process polls. `media` removes
    stored media while no ingest runs.
    """

    def __init__(
        self,
        catalog: Catalog,
        media: MediaRemover | None = None,
        nudge: Callable[[], None] = do_nothing,
        *,
        taken_seconds: float = TAKEN_SECONDS,
    ) -> None:
        self.taken_seconds = taken_seconds
        self._catalog = catalog
        self._media = media
        self._nudge = nudge

    async def answer(
        self, command: int, *, done_seconds: float = DONE_SECONDS
    ) -> CommandRecord | None:
        """Return how a command stands once it is answered, or when waiting for it is of no use.

        That is: nobody took it in `taken_seconds`, or it is not done `done_seconds` later.
        """
        self._nudge()
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            record = await self._catalog.commands.find(command)
            if record is None or record.standing in (Standing.DONE, Standing.LATE):
                return record
            taken = record.standing is Standing.TAKEN
            if clock() - began >= self.taken_seconds + (done_seconds if taken else 0.0):
                return record
            await asyncio.sleep(_LOOK_SECONDS)

    async def carried_out(
        self, command: int, now_us: int, *, done_seconds: float = DONE_SECONDS
    ) -> CommandRecord | None:
        """Return how a command with a deadline stands; one that nobody took is taken back."""
        record = await self.answer(command, done_seconds=done_seconds)
        if record is None or record.standing is not Standing.WAITING:
            return record
        if not await self._catalog.commands.withdraw(command, now_us):
            # It was taken at the last moment.
            return await self.answer(command, done_seconds=done_seconds)
        return await self._catalog.commands.find(command)

    async def report(
        self, stream: StreamRecord, now_us: int, *, by: int | None = None
    ) -> dict[str, Any] | None:  # Any: JSON, as the ingest says it
        """Return what the ingest knows of a stream's encoders now; None: nobody answered in time.

        That is `taken_seconds` in all. Nothing of it stays in the catalog.
        """
        command = Command(
            stream=stream.id,
            hash=stream.hash,
            kind=CommandKind.REPORT,
            deadline_us=self.deadline_us(now_us),
            by=by,
        )
        number = await self._catalog.commands.ask(command, now_us)
        try:
            record = await self.answer(number, done_seconds=0.0)
        finally:
            await self._catalog.commands.drop(number)
        done = record is not None and record.standing is Standing.DONE
        return record.answer if record is not None and done else None

    def deadline_us(self, now_us: int) -> int:
        """Return until when a command that is asked now may be taken."""
        return now_us + round(self.taken_seconds * MICROSECONDS)

    async def forgotten(self, command: int, hash_: str) -> None:
        """Wait until a stream that was deleted has ended, then see that its media are gone."""
        await self.answer(command)
        if self._media is not None:
            await self._media.remove([hash_])
