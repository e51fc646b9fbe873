"""An event loop whose clock jumps: what would wait happens at once, in its right order.

Sockets work in it where both ends are in the same loop: what one has written, the other reads
before the clock jumps.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Turns waiting for nothing into a jump of the clock."""

    def __init__(self, linger: float) -> None:
        super().__init__()
        self.now = 1000.0
        self._linger = linger

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None and timeout <= 0 else self._linger)
        if not found and timeout is None:
            raise AssertionError("everything waits for something that never comes")
        if not found and timeout is not None:
            self.now += max(0.0, timeout)
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, linger: float) -> None:
        self._jumping = _Jumping(linger)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


# What a coroutine takes and yields is its own affair.
def run(main: Coroutine[Any, Any, T], *, linger: float = 0.0) -> T:
    """Run a coroutine on a clock that jumps.

    `linger`: real seconds that the kernel has for what is under way on sockets before a jump.
    """
    with asyncio.Runner(loop_factory=lambda: _Loop(linger)) as runner:
        return runner.run(main)
