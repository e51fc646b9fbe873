"""Work in a thread for the length of a block."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def in_thread(work: Callable[[], object], stop: Callable[[], object]) -> Generator[None]:
    """Call `work` in a thread; at the end of the block, call `stop`, which makes it return."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join()
