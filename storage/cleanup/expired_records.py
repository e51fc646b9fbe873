"""Removes for good what was deleted or replaced, once it cannot be restored any more.

Its rows end here; its media are due then (`storage.cleanup.removals`), and go to the trash of the
store, since it is a clock that orders it. A deleted project is removed by
`headend.duties.project_remover`. Owners delete many records at once, so that many expire at once:
no operator has to confirm that.
"""

from storage.catalog.trash.repository import Trash


async def remove_expired_records(trash: Trash, now_us: int, *, confirmed: bool = False) -> int:
    """Remove what has expired, and return its number.

    Raises:
        StorageError: the catalog failed; the rest remains for the next call.
    """
    del confirmed
    removed = 0
    while some := await trash.expire(now_us):
        removed += some
    return removed
