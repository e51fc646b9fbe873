"""A cache of compiled SQLAlchemy statements, shared by all engines of a process.

By default each engine has its own cache, although readers, writers and heartbeats execute the same
statements. Compiling one takes a millisecond of CPU, as much as executing many of them.
"""

from typing import Any, Final

from sqlalchemy.engine import Compiled
from sqlalchemy.util import LRUCache

_MOST: Final = 1000


class CompiledStatements(LRUCache[tuple[Any, ...], Compiled]):  # Any: SQLAlchemy's own
    """The compiled statements of engines that have the same driver and kind of server.

    SQLAlchemy's keys begin with the engine's own dialect, which is left out here: the dialects of a
    driver compile a statement to the same text. The least recently used statements are dropped.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_MOST)

    def get(self, key: tuple[Any, ...], default: object = None) -> Any:
        """Return a statement as compiled by any of the engines, or the default."""
        return super().get(key[1:], default)

    def __setitem__(self, key: tuple[Any, ...], value: Compiled) -> None:
        super().__setitem__(key[1:], value)
