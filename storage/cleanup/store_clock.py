"""The clock by which a store dates its objects: a bucket's own, a file server's, this machine's."""

import secrets

from storage.objects.base import Objects


async def store_now_us(objects: Objects, now_us: int) -> int:
    """Return the time by which the ages of objects are judged: the store's, `now_us` at most.

    Both clocks must say that an object is old, since either may be wrong. The store's is read off
    an empty object, which is deleted again.

    Raises:
        ObjectError: the store failed.
    """
    address = f"checks/{secrets.token_hex(8)}"
    await objects.put(address, b"", vital=True)
    try:
        stat = await objects.stat(address)
    finally:
        await objects.delete(address)
    return now_us if stat is None else min(now_us, stat.modified_us)
