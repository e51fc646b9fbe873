"""A thread with a bounded queue before it: one stage of the engine.

The codec library releases the interpreter while it works, so stages run beside each other. A full
queue makes the stage before it wait, back to the pipe, where the parent's policy for overload is.
"""

import queue
import threading
from typing import Generic, TypeVar

__all__ = ["Worker"]

T = TypeVar("T")


class Worker(Generic[T]):
    """Hands items to `take` in order, on its own thread, then calls `close` on that thread.

    `depth` is how many items wait at most. An exception in either ends the engine (see `main`).
    """

    def __init__(self, name: str, depth: int) -> None:
        self._queue: queue.Queue[T | None] = queue.Queue(depth)
        # A daemon: where another stage fails, the process must end without this one's consent.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Queue an item; waits while the queue is full."""
        self._queue.put(item)

    def finish(self) -> None:
        """Wait until all that was put is done and `close` has returned."""
        self._queue.put(None)
        self._thread.join()

    def take(self, item: T) -> None:
        """Do one item's work."""
        raise NotImplementedError

    def close(self) -> None:
        """Do what is left when no item follows."""
        raise NotImplementedError

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            self.take(item)
        self.close()
