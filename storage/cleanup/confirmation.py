"""What a cleanup does not remove before an operator confirms it.

A clock that is wrong by days makes everything look old at once, and an old or a wrong database
knows little of what is stored. Neither can be told from a good reason for so much work; an operator
can tell (`headend doctor --clean --confirm`).
"""

from typing import Final

from storage.catalog.queries.due import Due
from storage.errors import StorageError

# A crash leaves only what was being added or deleted at that moment, fewer than ten videos. Failed
# deletions add up, but never reached a tenth of the store, and neither does what becomes due
# between two cleanups. Only more than both needs an operator.
_USUALLY: Final = 10
_USUAL_SHARE: Final = 0.1


class Unconfirmed(StorageError):
    """So much is to be removed that an operator must confirm it; nothing of it was removed."""


class TooMuchDue(Unconfirmed):
    """By the clock, the time of so much is over that an operator must confirm it."""

    def __init__(self, what: str, due: Due) -> None:
        super().__init__(
            f"the time of {due.count} of {due.total} {what} is over: if the database's clock is"
            " right, `headend doctor --clean --confirm` removes them"
        )


def is_unusual(count: int, total: int) -> bool:
    """Return whether `count` of `total` is more than a cleanup usually removes."""
    return count > max(_USUALLY, _USUAL_SHARE * total)


def require_usual(what: str, due: Due, *, confirmed: bool) -> None:
    """Check that no more is due than usual, unless an operator has `confirmed` it.

    Raises:
        TooMuchDue: it is more.
    """
    if is_unusual(due.count, due.total) and not confirmed:
        raise TooMuchDue(what, due)
