"""A repeated action in the background of a test."""

import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def repeating(step: Callable[[], object], seconds: float) -> Generator[None]:
    """Call a function every so many seconds in a thread; its exception fails the test."""
    over, errors = threading.Event(), list[BaseException]()

    def repeat() -> None:
        while not over.wait(seconds):
            try:
                step()
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                errors.append(error)
                return

    thread = threading.Thread(target=repeat, name="repeating")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]
