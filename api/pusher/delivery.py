"""Delivers the catalog's notices to the sockets of this process, and announces new ones on the bus.

Notices are numbered rows, so nothing depends on the bus: it only avoids waiting for the next poll.
Each process continues from the last number it delivered. If it may have missed some, it makes all
clients reconnect, and they query the API for the current state.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from api.pusher.hub import Hub
from media.ticks import MICROSECONDS
from storage.bus.base import Bus, BusUnavailable, Mailbox
from storage.catalog.events.broadcast import KEPT_US, OutboxRecord
from storage.errors import StorageError

log = logging.getLogger(__name__)

TOPIC: Final = "notices"

_POLL_SECONDS: Final = 0.25  # between polls, for processes without a bus; a poll costs about 0.5 ms
_MOST: Final = 500  # read at a time
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0
# After so many seconds without a poll, rows may have been deleted unread.
_GAP_SECONDS: Final = KEPT_US / MICROSECONDS / 2


class NoticeStore(Protocol):
    """Stores notices (`storage.catalog.events.broadcast.BroadcastOutbox`)."""

    async def newest(self) -> int:
        """Return the number of the newest notice; 0 where there is none."""
        ...

    async def read_after(self, last: int, most: int) -> tuple[tuple[OutboxRecord, ...], bool]:
        """Return notices after a number, and whether some before them are gone."""
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Register a callback that runs after each transaction that wrote a notice."""
        ...


@asynccontextmanager
async def announcing_notices(store: NoticeStore, bus: Bus) -> AsyncGenerator[None, None]:
    """Announce on the bus, for the length of the block, that this process wrote notices."""
    wrote = asyncio.Event()
    store.on_commit(wrote.set)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(_announce(wrote, bus))
        try:
            yield
        finally:
            task.cancel()


async def _announce(wrote: asyncio.Event, bus: Bus) -> None:
    is_down = False
    while True:
        await wrote.wait()
        wrote.clear()
        try:
            await bus.publish(TOPIC, b"")
        except BusUnavailable as error:
            if not is_down:  # other processes poll anyway, only later
                log.warning("notices are delayed", extra={"reason": str(error)})
            is_down = True
        else:
            is_down = False


@asynccontextmanager
async def delivering_notices(
    store: NoticeStore,
    hub: Hub,
    bus: Bus,
    *,
    poll_seconds: float = _POLL_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[None, None]:
    """Deliver notices written from now on, for the length of the block.

    Raises:
        StorageError: the catalog fails at the start; later failures are retried.
    """
    async with bus.subscribe(TOPIC) as mailbox:
        reader = _NoticeReader(store, hub, await store.newest(), poll_seconds, clock)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(_wake_on_message(mailbox, reader.wake)),
                tasks.create_task(reader.run()),
            ]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()


async def _wake_on_message(mailbox: Mailbox, wake: asyncio.Event) -> None:
    """Turn every message of the bus, also about lost messages, into one poll."""
    while True:
        await mailbox.get()
        wake.set()


class _NoticeReader:
    """The only reader of a process; `last` is the number of the last delivered notice."""

    def __init__(
        self,
        store: NoticeStore,
        hub: Hub,
        last: int,
        poll_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._hub = hub
        self._last = last
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._last_read = clock()

    async def run(self) -> None:
        """Deliver until cancelled; retry while the catalog is unavailable."""
        pause = _FIRST_PAUSE
        failing = False
        while True:
            try:
                await self._deliver_new()
            except Exception as error:  # no fault here may end the service
                if not failing and isinstance(error, StorageError):
                    log.warning("notices not read", extra={"reason": str(error)})
                elif not failing:
                    log.exception("notices not delivered")
                failing = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if failing:
                log.info("notices are on time again")
            failing, pause = False, _FIRST_PAUSE
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self.wake.wait()
            except TimeoutError:
                pass

    async def _deliver_new(self) -> None:
        """Deliver all new notices."""
        self.wake.clear()
        if self._clock() - self._last_read > _GAP_SECONDS:
            self._last = await self._store.newest()
            self._hub.reconnect("events may be missing")
        while True:
            notices, missed = await self._store.read_after(self._last, _MOST)
            self._last_read = self._clock()
            if missed:
                # Before the remaining ones: clients that reconnect query the current state.
                log.warning("notices missed", extra={"after": self._last})
                self._hub.reconnect("events are missing")
            for notice in notices:
                self._hub.deliver(
                    notice.channel.split(" "), notice.event, notice.body, notice.except_socket
                )
                self._last = notice.id
            if len(notices) < _MOST:
                return
            await asyncio.sleep(0)  # let other tasks run: one poll may deliver hundreds
