"""One pass of a cleanup, which goes on past what cannot be removed and logs it once."""

import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from storage.errors import StorageError
from storage.objects.base import ObjectError

log = logging.getLogger(__name__)

# A disk with so many failures fails as a whole, and takes 20 s each time.
MAX_FAILURES: Final = 20


class _TooManyFailures(StorageError):
    """So many objects could not be removed that the disk has failed as a whole."""


class CleanupPass:
    """How much a pass has removed, how many objects it could not, and why the first."""

    def __init__(self) -> None:
        self.removed = 0
        self.failures = 0
        self.first: ObjectError | None = None

    @contextmanager
    def failing(self) -> Generator[None]:
        """Note if an object cannot be removed within the block.

        Raises:
            StorageError: too many could not, which ends the block of `begin_pass`.
        """
        try:
            yield
        except ObjectError as error:
            self.failures += 1
            self.first = self.first or error
            if self.failures >= MAX_FAILURES:
                raise _TooManyFailures("too many objects cannot be removed") from error


@contextmanager
def begin_pass(what: str) -> Generator[CleanupPass]:
    """Begin a pass; at the end of the block one line of the log says how much of `what` failed.

    `MAX_FAILURES` failures end the block.
    """
    this_pass = CleanupPass()
    try:
        with suppress(_TooManyFailures):
            yield this_pass
    finally:
        if this_pass.first is not None:
            facts = {"objects": this_pass.failures, "cause": str(this_pass.first)}
            log.warning("%s not removed", what, extra=facts)
