"""How the API asks the process that takes encoders in, and waits for its answer.

What is asked stands in rows (`storage.catalog.commands`), written with the change that makes it
due. Times are seconds; how long a caller waits for what takes long is bounded, and the change holds
whether the answer came or not.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from api.ports import MediaRemover
from storage.catalog import Catalog
from storage.catalog.commands import CommandRecord, Standing

__all__ = ["TAKEN_SECONDS", "Ingest", "nobody"]

# An ingest looks four times a second: who has not taken a command by then is not there.
TAKEN_SECONDS: Final = 2.0
# An engine's last segments and the disk; what takes longer is told as it stands.
DONE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


def nobody() -> None:
    """Nudge nobody: the ingest is another process, and looks by itself."""


class Ingest:
    """The process that takes encoders in, as the API reaches it.

    `nudge` tells one that is this very process that there is a command. `media` removes what the
    ingest, where there is none, cannot.
    """

    def __init__(
        self,
        catalog: Catalog,
        media: MediaRemover | None = None,
        nudge: Callable[[], None] = nobody,
        *,
        taken_seconds: float = TAKEN_SECONDS,
    ) -> None:
        self.taken_seconds = taken_seconds
        self._catalog = catalog
        self._media = media
        self._nudge = nudge

    async def answer(self, command: int) -> CommandRecord | None:
        """Return how a command stands once it is answered, or when waiting for it is of no use.

        That is: nobody took it in `taken_seconds`, or it is not done `DONE_SECONDS` later.
        """
        self._nudge()
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            record = await self._catalog.commands.find(command)
            if record is None or record.standing in (Standing.DONE, Standing.LATE):
                return record
            taken = record.standing is Standing.TAKEN
            if clock() - began >= self.taken_seconds + (DONE_SECONDS if taken else 0.0):
                return record
            await asyncio.sleep(_LOOK_SECONDS)

    async def ended(self, command: int, now_us: int) -> CommandRecord | None:
        """Return how a command to end a run stands; one that nobody took is taken back."""
        record = await self.answer(command)
        if record is None or record.standing is not Standing.WAITING:
            return record
        if not await self._catalog.commands.withdraw(command, now_us):
            return await self.answer(command)  # it was taken at the last moment
        return await self._catalog.commands.find(command)

    async def forgotten(self, command: int, hash_: str) -> None:
        """Wait until a stream that was deleted has ended, then see that its media are gone."""
        await self.answer(command)
        if self._media is not None:
            await self._media.remove([hash_])
