"""Which request of this process may append to a resumable upload: the latest one."""

from collections.abc import Generator
from contextlib import contextmanager


class Turn:
    """One request's turn to append; `over` is True once a later request has taken over."""

    over = False


class WriterTurns:
    """The current turns, by the names of uploads."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}

    @contextmanager
    def turn(self, name: str) -> Generator[Turn]:
        """Hold the turn at an upload during the block; it is over once another request takes it."""
        if name in self._turns:
            self._turns[name].over = True
        turn = self._turns[name] = Turn()
        try:
            yield turn
        finally:
            if self._turns.get(name) is turn:
                del self._turns[name]
