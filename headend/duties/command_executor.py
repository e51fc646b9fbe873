"""Executes the commands that API processes send to the process that runs ingest.

Commands are rows (`storage.catalog.streams.commands`), so it makes no difference whether the API
runs in this process or in another one. The rows are read four times a second, and immediately when
this process adds one. Of several hosts, the owner of the stream executes a command.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, assert_never

from headend.duties.media_remover import StoredMedia
from headend.hosts.presence import HostPresence
from ingest.stream.registry import LiveStreams
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.streams.commands import CommandKind, CommandRecord, StreamCommand
from storage.errors import StorageError

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.25
# Ending a run waits for the engine's last segments and the disk; beyond this it continues alone.
_EXECUTE_SECONDS: Final = 30.0
_DATABASE_SECONDS: Final = 5.0
_MAX_RUNNING: Final = 16  # further commands wait in their rows
# Removing a stream's media takes long, and somebody waits for the answers to other commands.
_MAX_REMOVING: Final = 8

_ENDED: Final = "the stream was ended by its owner"
_KEY_CHANGED: Final = "the stream key was changed"
_DELETED: Final = "the stream was deleted"


class UnfinishedRuns(Protocol):
    """Runs that a restart left open (see `transcode.live.service.LiveTranscoding`)."""

    async def end_interrupted(self, stream: int, hash_: str) -> bool:
        """End such a run of a stream; return False if there is none."""
        ...


@asynccontextmanager
async def _hold_alone(stream: int) -> AsyncGenerator[bool]:
    """Hold a stream that no other host can own, or whose owner makes no difference."""
    del stream
    yield True


class CommandExecutor:
    """Executes the commands of one catalog in this process.

    With a `presence` these are the commands that are for its host
    (`storage.catalog.streams.commands.Commands.find_for_host`), else all. `hold` ensures that no
    other host owns a stream while a command is executed; else that host gets the command. Encoders
    of an ended stream are refused for `end_holds_seconds` (`storage.catalog.streams.holds`).
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        streams: LiveStreams,
        unfinished_runs: UnfinishedRuns,
        media: StoredMedia,
        now_us: Callable[[], int],
        presence: HostPresence | None = None,
        hold: Callable[[int], AbstractAsyncContextManager[bool]] = _hold_alone,
        end_holds_seconds: float = 0.0,
    ) -> None:
        self._hold_us = round(end_holds_seconds * MICROSECONDS)
        self._catalog = catalog
        self._presence = presence
        self._hold = hold
        self._streams = streams
        self._unfinished_runs = unfinished_runs
        self._media = media
        self._now_us = now_us
        self._nudged = asyncio.Event()
        self._running: dict[int, CommandKind] = {}
        self._failed: set[int] = set()  # not tried again
        self._read_failed = False

    def nudge(self) -> None:
        """Read the commands now, since there is a new one."""
        self._nudged.set()

    async def run(self) -> None:
        """Execute commands, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                waiting = await self._waiting()
                self._failed.intersection_update(record.id for record in waiting)
                for record in waiting:
                    if record.id in self._failed or record.id in self._running:
                        continue
                    if self._has_room(record.command.kind):
                        self._running[record.id] = record.command.kind
                        tasks.create_task(self._execute(record))
                try:
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._nudged.wait()
                except TimeoutError:
                    pass
                self._nudged.clear()

    def _has_room(self, kind: CommandKind) -> bool:
        """Return whether another command of a kind may run now."""
        removing = sum(each is CommandKind.FORGET for each in self._running.values())
        return len(self._running) < _MAX_RUNNING and (
            kind is not CommandKind.FORGET or removing < _MAX_REMOVING
        )

    async def _waiting(self) -> tuple[CommandRecord, ...]:
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                waiting = await self._find()
        except (StorageError, TimeoutError) as error:
            if not self._read_failed:  # logged once per outage; the next poll tries again
                log.warning("commands not read", extra={"cause": repr(error)})
            self._read_failed = True
            return ()
        self._read_failed = False
        return waiting

    async def _find(self) -> tuple[CommandRecord, ...]:
        if self._presence is None:
            return await self._catalog.commands.find_unanswered()
        host = self._presence.host
        if host is None:
            return ()
        return await self._catalog.commands.find_for_host(host, self._presence.dead_seconds)

    async def _execute(self, record: CommandRecord) -> None:
        command = record.command
        about = {"stream": command.hash, "command": command.kind.value}
        # A report changes nothing, and is requested often: the stream need not be claimed for it.
        hold = _hold_alone if command.kind is CommandKind.REPORT else self._hold
        try:
            async with hold(command.stream) as ours:
                if not ours:
                    await asyncio.sleep(_POLL_SECONDS)
                    return
                async with asyncio.timeout(_DATABASE_SECONDS):
                    started = await self._catalog.commands.start(
                        record.id,
                        self._now_us(),
                        hold_us=self._hold_us if command.kind is CommandKind.END else 0,
                    )
                if not started:
                    return
                async with asyncio.timeout(_EXECUTE_SECONDS):
                    answer = await self._perform(command)
            if command.kind is CommandKind.REPORT:  # long, and requested often
                log.debug("encoder report sent", extra=about)
            else:
                log.info("command executed", extra={**about, **answer})
            async with asyncio.timeout(_DATABASE_SECONDS):
                await self._catalog.commands.answer(record.id, answer, self._now_us())
        except (StorageError, TimeoutError) as error:
            # The command stays in its row, and the next poll tries again until its deadline.
            log.warning("command not executed", extra={**about, "cause": repr(error)})
            await asyncio.sleep(_POLL_SECONDS)
        except Exception:  # one command's fault must not end the others
            # Its caller waits in vain, and its row is removed when it is old.
            log.exception("command failed", extra=about)
            self._failed.add(record.id)
        finally:
            del self._running[record.id]

    async def _perform(self, command: StreamCommand) -> dict[str, object]:
        """Perform a command and return its answer."""
        match command.kind:
            case CommandKind.END:
                ended = await self._streams.end(command.stream, _ENDED)
                unfinished = await self._unfinished_runs.end_interrupted(
                    command.stream, command.hash
                )
                return {"ended": ended or unfinished}
            case CommandKind.DISCONNECT:
                async with asyncio.timeout(_DATABASE_SECONDS):
                    proof = await self._catalog.live_state.find_proof(command.stream)
                count = await self._streams.disconnect(command.stream, proof, _KEY_CHANGED)
                return {"disconnected": count}
            case CommandKind.FORGET:
                # With no valid key, nothing can begin again.
                count = await self._streams.disconnect(command.stream, None, _DELETED)
                await self._streams.end(command.stream, _DELETED)
                await self._unfinished_runs.end_interrupted(command.stream, command.hash)
                if command.keeps_media:
                    await self._media.withdraw([command.hash])
                else:
                    await self._media.remove([command.hash])
                return {"disconnected": count}
            case CommandKind.PAUSE | CommandKind.RESUME:
                return {"done": await self._pause_or_resume(command)}
            case CommandKind.DRILL:
                return self._with_host_name(await self._streams.drill(command.stream))
            case CommandKind.REPORT:
                return self._with_host_name(self._streams.report(command.stream))
            case _:
                assert_never(command.kind)

    def _with_host_name(self, answer: dict[str, object]) -> dict[str, object]:
        """Add the name of this host to an answer, if there are several."""
        return answer if self._presence is None else {**answer, "host": self._presence.name}

    async def _pause_or_resume(self, command: StreamCommand) -> bool:
        """Apply the stored pause state, since commands may overtake each other."""
        async with asyncio.timeout(_DATABASE_SECONDS):
            stream = await self._catalog.streams.find(command.stream)
        if stream is None:
            return False
        act = self._streams.pause if stream.paused else self._streams.resume
        return await act(command.stream)
