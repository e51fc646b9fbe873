"""What SQLAlchemy compiled statements to, kept for all engines of a process.

Each engine would keep its own, although those of readers, writers and beats run the same
statements: to compile one takes a millisecond of CPU, as much as many take to run.
"""

from typing import Any, Final

from sqlalchemy.engine import Compiled
from sqlalchemy.util import LRUCache

__all__ = ["CompiledStatements"]

_MOST: Final = 1000


class CompiledStatements(LRUCache[tuple[Any, ...], Compiled]):  # Any: SQLAlchemy's own
    """The compiled statements of engines that have the same driver and kind of server.

    SQLAlchemy's keys begin with the dialect, of which each engine has its own; those of one driver
    compile a statement to the same text. The least recently used statements are dropped.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_MOST)

    def get(self, key: tuple[Any, ...], default: object = None) -> Any:
        """Return what a statement was compiled to, by whichever engine; the default if by none."""
        return super().get(key[1:], default)

    def __setitem__(self, key: tuple[Any, ...], value: Compiled) -> None:
        super().__setitem__(key[1:], value)
