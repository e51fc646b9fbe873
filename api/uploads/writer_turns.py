"""Who appends to which resumable upload in this process: the newest does."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["Turn", "Writers"]


class Turn:
    """A writer's turn at an upload; `over` says that another has taken it."""

    over = False


class Writers:
    """Who appends to which upload in this process."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}

    @contextmanager
    def turn(self, name: str) -> Generator[Turn]:
        """Take the turn at an upload for the length of the block, or until another takes it."""
        if name in self._turns:
            self._turns[name].over = True
        turn = self._turns[name] = Turn()
        try:
            yield turn
        finally:
            if self._turns.get(name) is turn:
                del self._turns[name]
