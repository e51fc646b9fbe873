"""A repeated action in the background of a test."""

import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.support.in_thread import in_thread


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

    with in_thread(repeat, over.set):
        yield
    if errors:
        raise errors[0]
