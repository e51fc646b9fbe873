"""The posters of live streams, as the catalog has them: their labels, their size, their age.

Each function runs within the caller's transaction.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from media.stream_keys import PublicHash
from storage.catalog.events import broadcast
from storage.catalog.schema.tables import streams

__all__ = ["set_posters"]


async def set_posters(
    connection: AsyncConnection,
    hash_: PublicHash,
    labels: Sequence[str],
    size: tuple[int, int],
    now_us: int,
) -> bool:
    """Write down that a stream has new posters; False where there is no such stream (any more).

    `labels` are those of their resolutions, `size` are width and height of the largest. Only other
    labels than before are told and raise the version: a new picture stands at the same addresses.
    """
    table = streams.c
    asked = select(table.id, table.poster_labels).where(table.hash == hash_).with_for_update()
    stood = (await connection.execute(asked)).one_or_none()
    if stood is None:
        return False
    text = ",".join(labels)
    values: dict[str, Any] = {  # Any: values of columns of several types
        "image_us": now_us,
        "image_width": size[0],
        "image_height": size[1],
    }
    if text != stood.poster_labels:
        values |= {"poster_labels": text, "version": table.version + 1}
    await connection.execute(update(streams).where(table.id == stood.id).values(values))
    if text != stood.poster_labels:
        await broadcast.tell_stream(connection, stood.id, now_us)
    return True
