"""Requests that wait for a part or a segment that is not listed yet (blocking reload).

A waiting request costs an entry of a dict: no task, no future, no timer of its own. All requests
for the same part are grouped; they are called back when it is listed, when the run ends or is
dropped, or when the first of them times out. Some hundreds are called back at a time, so that the
event loop can send their responses and do other work in between.
Source: draft-pantos-hls-rfc8216bis, 6.2.5.2.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final

from media.hls.timeline import Timeline

# Three target durations: a request that cannot be met by then is answered with 503 (6.2.5.2).
WAIT_SECONDS: Final = 12.0
# Requests that are answered at a time: 10 ms of work.
_AT_ONCE: Final = 250


class _PartRequests:
    """The requests for one part (None: a whole segment) of one playlist."""

    def __init__(self, msn: int, part: int | None, timer: asyncio.TimerHandle) -> None:
        self.msn = msn
        self.part = part
        self.timer = timer
        self.callbacks: dict[int, Callable[[], None]] = {}


class WaitingRequests:
    """The waiting requests of all live playlists of a process, by the address of the playlist."""

    def __init__(self, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._groups: dict[str, dict[tuple[int, int | None], _PartRequests]] = {}
        self._count = 0

    def __len__(self) -> int:
        groups = (group for groups in self._groups.values() for group in groups.values())
        return sum(len(group.callbacks) for group in groups)

    def add(
        self, address: str, msn: int, part: int | None, ready: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `ready` once the part is listed or cannot be waited for; return what cancels that.

        Must be called from the event loop's thread.
        """
        groups = self._groups.setdefault(address, {})
        group = groups.get((msn, part))
        if group is None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._wait_seconds, self._end, address, msn, part)
            group = groups[msn, part] = _PartRequests(msn, part, timer)
        self._count += 1
        number = self._count
        callbacks = group.callbacks
        callbacks[number] = ready
        return lambda: callbacks.pop(number, None) and None

    def wake(self, address: str, timeline: Timeline) -> None:
        """Call back the requests whose part a playlist lists now; all of them if it has ended."""
        for group in list(self._groups.get(address, {}).values()):
            if timeline.ended or timeline.has(group.msn, group.part):
                self._end(address, group.msn, group.part)

    def drop(self, prefix: str) -> None:
        """Call back all requests for playlists below `prefix`, which are gone."""
        for address in [each for each in self._groups if each.startswith(prefix)]:
            for group in list(self._groups[address].values()):
                self._end(address, group.msn, group.part)

    def _end(self, address: str, msn: int, part: int | None) -> None:
        groups = self._groups[address]
        group = groups.pop((msn, part))
        if not groups:
            del self._groups[address]
        group.timer.cancel()
        _call(group.callbacks)


def _call(callbacks: dict[int, Callable[[], None]]) -> None:
    """Call and remove the oldest callbacks; those behind them follow on the event loop."""
    for number in list(islice(callbacks, _AT_ONCE)):
        ready = callbacks.pop(number, None)
        if ready is not None:
            ready()
    if callbacks:
        asyncio.get_running_loop().call_soon(_call, callbacks)
