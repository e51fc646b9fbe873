"""A cleanup that is done now and every so often."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from storage.cleanup.confirmation import Unconfirmed
from storage.errors import StorageError

log = logging.getLogger(__name__)


class _Clean(Protocol):
    async def __call__(self, now_us: int, /, *, confirmed: bool) -> int:
        """Remove what is to go by then; return how many."""
        ...


class Cleanup(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be removed every `seconds`; `what` names it in the log.

    `clean` gets the time by the catalog's clock, and whether an operator has confirmed that much is
    to be removed. It raises `Unconfirmed` if it stops, and `StorageError` if something failed.
    """

    what: str
    seconds: float
    clean: _Clean


async def keep_cleaning(
    cleanup: Cleanup, now_us: Callable[[], int], verify: Callable[[], Awaitable[None]]
) -> None:
    """Do a cleanup now and every so often, until cancelled.

    `now_us` is the catalog's clock. `verify` raises `StorageError` unless media and catalog belong
    together; then nothing is done.
    """
    while True:
        try:
            await verify()
            count = await cleanup.clean(now_us(), confirmed=False)
        except Unconfirmed as error:
            cause = {"cause": str(error)}
            log.error("%s not removed", cleanup.what, extra=cause)  # noqa: TRY400  # one line
        except StorageError as error:
            log.warning("%s not removed", cleanup.what, extra={"cause": str(error)})
        else:
            if count:
                log.info("%s removed", cleanup.what, extra={"count": count})
        await asyncio.sleep(cleanup.seconds)
