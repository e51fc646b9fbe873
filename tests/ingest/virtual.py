"""An event loop whose clock jumps: what would wait happens at once, in its right order."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Turns waiting for nothing into a jump of the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found and timeout is None:
            raise AssertionError("everything waits for something that never comes")
        if not found and timeout is not None:
            self.now += max(0.0, timeout)
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:  # what a coroutine takes and yields is its own affair
    """Run a coroutine on a clock that jumps."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
