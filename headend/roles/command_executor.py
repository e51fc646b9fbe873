"""Carries out what API processes ask of the one that takes encoders in.

They ask in rows (`storage.catalog.streams.commands`), so it makes no difference whether they are
this very process or others on the same folder. The rows are looked at four times a second, and at
once when somebody of this process says that there is one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from storage.catalog import Catalog
from storage.catalog.streams.commands import Command, CommandKind, CommandRecord
from storage.errors import StorageError

__all__ = ["LeftRuns", "Orders", "Remover", "Streams"]

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
# An end waits for the engine's last segments and for the disk; what takes longer goes on by itself.
_CARRY_OUT_SECONDS: Final = 30.0
_DATABASE_SECONDS: Final = 5.0
_AT_ONCE: Final = 16  # the rest waits in its rows

_ENDED: Final = "the stream was ended by its owner"
_KEY_CHANGED: Final = "the stream key was changed"
_DELETED: Final = "the stream was deleted"


class Streams(Protocol):
    """The streams that this process takes in (`ingest.stream.registry.LiveStreams`)."""

    async def end(self, stream: int, reason: str) -> bool:
        """Take a stream's publishers off and end its run; False where there was neither."""
        ...

    async def disconnect(self, stream: int, proof: str | None, reason: str) -> int:
        """Take off who publishes with a key that is not right any more."""
        ...

    async def pause(self, stream: int) -> bool:
        """Give a run's viewers the slate until `resume`; False where there is no run."""
        ...

    async def resume(self, stream: int) -> bool:
        """Give a paused run's viewers a source again; False where there is no run."""
        ...

    async def drill(self, stream: int) -> dict[str, object]:
        """Try a stream's failover; returns how it went, or why it was `refused`."""
        ...

    def report(self, stream: int) -> dict[str, object]:
        """Return what a stream's encoders send, fit for JSON; none: it has no encoder here."""
        ...


class LeftRuns(Protocol):
    """Runs that a stop left open for their encoders (`transcode.live.service.LiveTranscoding`)."""

    async def end_interrupted(self, stream: str) -> bool:
        """End such a run of a stream; False where there is none."""
        ...


class Remover(Protocol):
    """Removes media (`headend.roles.media_remover.StoredMedia`)."""

    async def remove(self, hashes: list[str]) -> None:
        """Remove all media of these streams."""
        ...


class Orders:
    """The commands of one catalog, as one process carries them out."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        streams: Streams,
        left: LeftRuns,
        media: Remover,
        now_us: Callable[[], int],
    ) -> None:
        self._catalog = catalog
        self._streams = streams
        self._left = left
        self._media = media
        self._now_us = now_us
        self._nudged = asyncio.Event()
        self._under_way: set[int] = set()
        self._unread = False

    def nudge(self) -> None:
        """Look at once: there is a command."""
        self._nudged.set()

    async def carry_out(self) -> None:
        """Carry out what is asked, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for record in await self._waiting():
                    if record.id not in self._under_way and len(self._under_way) < _AT_ONCE:
                        self._under_way.add(record.id)
                        tasks.create_task(self._one(record))
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._nudged.wait()
                except TimeoutError:
                    pass
                self._nudged.clear()

    async def _waiting(self) -> tuple[CommandRecord, ...]:
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                found = await self._catalog.commands.waiting()
        except (StorageError, TimeoutError) as error:
            if not self._unread:  # once a failure: the next look tries again
                log.warning("commands not read", extra={"cause": repr(error)})
            self._unread = True
            return ()
        self._unread = False
        return found

    async def _one(self, record: CommandRecord) -> None:
        command = record.command
        about = {"stream": command.hash, "command": command.kind.value}
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                taken = await self._catalog.commands.take(record.id, self._now_us())
            if not taken:
                return
            async with asyncio.timeout(_CARRY_OUT_SECONDS):
                answer = await self._done(command)
            if command.kind is CommandKind.REPORT:  # pages ask again and again, and it is long
                log.debug("reported", extra=about)
            else:
                log.info("carried out", extra={**about, **answer})
            async with asyncio.timeout(_DATABASE_SECONDS):
                await self._catalog.commands.answer(record.id, answer, self._now_us())
        except (StorageError, TimeoutError) as error:
            # It waits in its row: the next look tries again, up to its deadline.
            log.warning("not carried out", extra={**about, "cause": repr(error)})
            await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._under_way.discard(record.id)

    async def _done(self, command: Command) -> dict[str, object]:
        """Do what is asked; returns the answer."""
        match command.kind:
            case CommandKind.END:
                ended = await self._streams.end(command.stream, _ENDED)
                left = await self._left.end_interrupted(command.hash)
                return {"ended": ended or left}
            case CommandKind.DISCONNECT:
                async with asyncio.timeout(_DATABASE_SECONDS):
                    proof = await self._catalog.live_state.find_proof(command.stream)
                taken_off = await self._streams.disconnect(command.stream, proof, _KEY_CHANGED)
                return {"disconnected": taken_off}
            case CommandKind.FORGET:
                # Nobody's key is right any more; then nothing can begin again.
                taken_off = await self._streams.disconnect(command.stream, None, _DELETED)
                await self._streams.end(command.stream, _DELETED)
                await self._left.end_interrupted(command.hash)
                await self._media.remove([command.hash])
                return {"disconnected": taken_off}
            case CommandKind.PAUSE | CommandKind.RESUME:
                return {"done": await self._hold(command)}
            case CommandKind.DRILL:
                return await self._streams.drill(command.stream)
            case CommandKind.REPORT:
                return self._streams.report(command.stream)
            case _:
                assert_never(command.kind)

    async def _hold(self, command: Command) -> bool:
        """Pause or resume a run as its owner's newest word is: commands may overtake each other."""
        async with asyncio.timeout(_DATABASE_SECONDS):
            stream = await self._catalog.streams.find(command.stream)
        if stream is None:
            return False
        act = self._streams.pause if stream.paused else self._streams.resume
        return await act(command.stream)
