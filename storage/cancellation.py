"""Takes back the cancellation that a failed `asyncio.TaskGroup` leaves on its task.

Until Python 3.13, a group whose task fails while the group waits for its tasks cancels the task
that it runs in, raises the errors, and does not take the cancellation back. If that task goes on,
`asyncio.timeout` of Python 3.11.2 mistakes it for one from outside: it raises CancelledError
instead of TimeoutError, and the task ends unnoticed.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncancelled() -> Generator[None]:
    """Wrap task groups whose errors the current task survives.

    An error that leaves the block takes with it the cancellations that were requested inside;
    CancelledError does not.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except Exception:
        while task is not None and task.cancelling() > before:
            task.uncancel()
        raise
