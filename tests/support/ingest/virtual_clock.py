"""An event loop with a virtual clock: waits end at once, in order.

Sockets work if both ends are in the same loop: written bytes are read before the clock advances.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

# Virtual seconds that a test with sockets may take.
_PATIENCE: Final = 300.0
# Real seconds that sockets have before the clock advances.
_LINGER: Final = 0.005


class _Jumping(selectors.SelectSelector):
    """Advances the clock instead of waiting."""

    def __init__(self, linger: float) -> None:
        super().__init__()
        self.now = 1000.0
        self._linger = linger

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None and timeout <= 0 else self._linger)
        if not ready and timeout is None:
            raise AssertionError("everything waits for something that never comes")
        if not ready and timeout is not None:
            self.now += max(0.0, timeout)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, linger: float) -> None:
        self._jumping = _Jumping(linger)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def hold_up(self, seconds: float) -> None:
        """Advance the clock without running callbacks."""
        self._jumping.now += seconds


def run(main: Coroutine[Any, Any, T], *, linger: float = 0.0) -> T:
    """Run a coroutine on a virtual clock.

    `linger`: real seconds that sockets have before the clock advances.
    """
    with asyncio.Runner(loop_factory=lambda: _Loop(linger)) as runner:
        return runner.run(main)


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a virtual clock."""

    @functools.wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return play


def virtual_sockets(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a virtual clock; both ends of its sockets must be in this loop."""

    @functools.wraps(test)
    def play(*args: P.args, **kwargs: P.kwargs) -> None:
        play_fast(test(*args, **kwargs))

    return play


def play_fast(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a virtual clock; both ends of its sockets must be in this loop."""
    run(_bounded(scenario), linger=_LINGER)


async def _bounded(scenario: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(_PATIENCE):
        await scenario


def hold_up(seconds: float) -> None:
    """Advance the running virtual loop's clock, as a blocking call would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.hold_up(seconds)
