"""A thread with a bounded queue in front of it: one stage of the engine.

The codec library releases the interpreter lock while it works, so stages run in parallel. A full
queue makes the stage before it wait, and so on back to the pipe, where the parent applies its
policy for overload.
"""

import queue
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class PipelineStage(Generic[T]):
    """Passes items to `handle` in order, on its own thread, then calls `close` on that thread.

    At most `depth` items wait. With a depth of 0 there is no thread, and `put` and `finish` do the
    work themselves. An exception in `handle` or `close` ends the engine (see `main`).
    """

    def __init__(self, name: str, depth: int) -> None:
        self._queue: queue.Queue[T | None] | None = queue.Queue(depth) if depth else None
        # A daemon thread: if another stage fails, the process must end without waiting for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        if depth:
            self._thread.start()

    @property
    def waiting(self) -> int:
        """The approximate number of waiting items."""
        return 0 if self._queue is None else self._queue.qsize()

    def put(self, item: T) -> None:
        """Queue an item; wait while the queue is full."""
        if self._queue is None:
            self.handle(item)
        else:
            self._queue.put(item)

    def finish(self) -> None:
        """Wait until all items are handled and `close` has returned."""
        if self._queue is None:
            self.close()
        else:
            self._queue.put(None)
            self._thread.join()

    def handle(self, item: T) -> None:
        """Process one item."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish the work after the last item."""
        raise NotImplementedError

    def _run(self) -> None:
        while self._queue is not None and (item := self._queue.get()) is not None:
            self.handle(item)
        self.close()
