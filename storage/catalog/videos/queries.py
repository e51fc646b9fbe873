"""Videos as their owners see them: found, listed, removed.

How their files arrive is in `storage.catalog.videos.creation`, how they are changed in
`storage.catalog.videos.repository`, how they are transcoded in
`storage.catalog.videos.transcoding`. Each function runs within the caller's transaction.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Select, bindparam, delete, select

from media.countries import decode_countries
from media.stream_keys import PublicHash, new_hash
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import VideoDeletedEvent, VideoEvent
from storage.catalog.library import labels
from storage.catalog.queries import (
    counters,
    named_rows,
    project_lookup,
    removals,
    text_search,
    trash_rows,
)
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, Page
from storage.catalog.records.transcoding import MadeSubtitles
from storage.catalog.records.videos import Phase, VideoQuery, VideoRecord, VideoRung, WholeVideo
from storage.catalog.schema.tables import categories, players, streams, video_resolutions, videos
from storage.catalog.schema.tables import projects as projects_table
from storage.catalog.schema.upload_tables import recordings
from storage.catalog.videos import past_files, trashing
from storage.catalog.videos import rows as video_rows

PAGE_SIZE: Final = 30
_TABLE: Final = videos.c
# The key of a video's project is given.
_READER: Final = RowReader(VideoRecord, videos, own_title=_TABLE.title, labels=_TABLE.poster_labels)
_RUNG: Final = RowReader(VideoRung, video_resolutions)
_OTHER_COLUMNS: Final = (
    _TABLE.category_id,
    _TABLE.player_id,
    _TABLE.countries,
    _TABLE.subtitles,
    projects_table.c.key,
)
# What lists can be sorted by.
_SORTED: Final[dict[str, ColumnElement[Any]]] = {  # Any: as above
    "id": _TABLE.id,
    "title": _TABLE.title_fold,
    "length": _TABLE.length_us,
    "size": _TABLE.size,
}
# The most frequent query of lists: built once, as building it costs more than running it.
_FRONT: Final = (
    select(*_READER.columns)
    .where(_TABLE.project_id == bindparam("of"))
    .order_by(_TABLE.id.desc())
    .limit(PAGE_SIZE)
    .offset(bindparam("start"))
)


async def find(connection: AsyncConnection, video: int) -> WholeVideo | None:
    """Return the video with that number and all that belongs to it."""
    return await _find(connection, video, project_lookup.IS_PRESENT)


async def _find(
    connection: AsyncConnection, video: int, *conditions: ColumnElement[bool]
) -> WholeVideo | None:
    if video > named_rows.MAX_ID:
        return None
    statement = select(*_READER.columns, *_OTHER_COLUMNS).join_from(videos, projects_table)
    statement = statement.where(_TABLE.id == video, *conditions)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    tags = await labels.tags_of(connection, "video", [video])
    category = await named_rows.find_named(connection, categories, [row.category_id])
    player = await named_rows.find_named(connection, players, [row.player_id])
    table = video_resolutions.c
    rungs = select(*_RUNG.columns).where(table.video_id == video).order_by(table.number)
    return WholeVideo(
        video=_READER.read(row, project_key=row.key),
        category=category.get(row.category_id),
        countries=decode_countries(row.countries),
        player=player.get(row.player_id),
        tags=tags[video],
        rungs=await _RUNG.find_all(connection, rungs),
        subtitles=msgspec.json.decode(row.subtitles, type=tuple[MadeSubtitles, ...]),
    )


async def read(connection: AsyncConnection, video: int) -> WholeVideo:
    """Return a video that the caller's transaction has just written or locked."""
    whole = await _find(connection, video)
    if whole is None:
        raise LookupError(video)
    return whole


async def find_page(
    connection: AsyncConnection, project: int, key: str, query: VideoQuery, page: int
) -> Page[VideoRecord]:
    """Return a page of a project's videos, newest first; `key` is the project's.

    The front of a list costs the same however long it is: an index has its order. Totals are kept,
    except for a search or a span, which are counted.
    """
    if query == VideoQuery():
        return await _find_front(connection, project, key, page)
    conditions = [_TABLE.project_id == project]
    order = [_TABLE.id.desc()]
    if query.phase is not None:
        conditions.append(_TABLE.phase == query.phase)
    if query.search:
        conditions.append(text_search.contains(videos, "title", query.search))
    if query.from_us is not None or query.until_us is not None:
        order.insert(0, _TABLE.created_us.desc())
    if query.from_us is not None:
        conditions.append(_TABLE.created_us >= query.from_us)
    if query.until_us is not None:
        conditions.append(_TABLE.created_us < query.until_us)
    if query.search or len(order) > 1:  # a span
        total = None
    else:
        kind = "videos" if query.phase is None else f"videos.{query.phase}"
        total = await counters.find(connection, project, kind)
    if query.sort is not None:
        columns = (_SORTED[query.sort.column], _TABLE.id)  # equal values are ordered by number
        order = [each.desc() if query.sort.descending else each.asc() for each in columns]
    return await named_rows.page_of(
        connection, videos, conditions, order, _READER,
        total=total, page=page, size=PAGE_SIZE, project_key=key,
    )  # fmt: skip


async def _find_front(
    connection: AsyncConnection, project: int, key: str, page: int
) -> Page[VideoRecord]:
    """Return a page of all videos of a project."""
    total = await counters.find(connection, project, "videos")
    start = (page - 1) * PAGE_SIZE
    records: tuple[VideoRecord, ...] = ()
    if start < total:
        rows = await connection.execute(_FRONT, {"of": project, "start": start})
        records = tuple(_READER.read(row, project_key=key) for row in rows.all())
    return Page(items=records, total=total, number=page, size=PAGE_SIZE)


async def find_in_phase(
    connection: AsyncConnection, of: Select[int], phase: Phase, most: int
) -> tuple[VideoRecord, ...]:
    """Return the newest videos in a phase, of the projects whose numbers `of` selects."""
    statement = (
        select(*_READER.columns, projects_table.c.key)
        .join(projects_table, projects_table.c.id == _TABLE.project_id)
        .where(_TABLE.project_id.in_(of), _TABLE.phase == phase)
        .order_by(_TABLE.id.desc())
        .limit(most)
    )
    rows = await connection.execute(statement)
    return tuple(_READER.read(row, project_key=row.key) for row in rows)


async def free_hash(connection: AsyncConnection) -> PublicHash:
    """Return a public name that no video, no recording and no stream has, or had lately."""
    while await is_hash_taken(connection, hash_ := new_hash()):
        pass
    return hash_


async def is_hash_taken(connection: AsyncConnection, hash_: PublicHash) -> bool:
    """Return whether a video, a recording or a stream has a public name, or is in the trash."""
    if await trash_rows.find_hashes(connection, [hash_], "stream", "video"):
        return True
    for table in (videos, streams, recordings):
        query = select(table.c.id).where(table.c.hash == hash_)
        if (await connection.execute(query)).one_or_none() is not None:
            return True
    return False


async def find_known(
    connection: AsyncConnection, hashes: Sequence[PublicHash]
) -> frozenset[PublicHash]:
    """Return those of some hashes (a few hundred at most) that videos have, or are to have.

    A video in the trash may be restored.
    """
    known: set[PublicHash] = set()
    # A recording first: it may become a video meanwhile, and never the other way about.
    for column in (recordings.c.hash, _TABLE.hash):
        known.update((await connection.execute(select(column).where(column.in_(hashes)))).scalars())
    known |= await trash_rows.find_hashes(connection, hashes, "video")
    return frozenset(known)


async def remove(
    connection: AsyncConnection,
    video: int,
    change: Change,
    *,
    event: VideoEvent | None = None,
    expired: bool = False,
) -> PublicHash | None:
    """Remove a video and its jobs; return its hash, None for none.

    `event` says what happened, if its owner did not delete it. If the owner did, it is in the trash
    from now on, for as long as the change says.

    Otherwise its media are to be deleted, unless it `expired`: a clock may be wrong, so the caller
    moves them to the trash of the store.
    """
    row = await video_rows.lock(connection, video)
    if row is None:
        return None
    project, hash_ = row.project_id, row.hash
    deletes = event is None and change.keep_us > 0
    is_kept = deletes and await trashing.keep(connection, row, change)
    if not is_kept:
        await trashing.drop_files(connection, video)
    await connection.execute(delete(videos).where(_TABLE.id == video))
    if not (expired or is_kept):
        await removals.of_videos(connection, [hash_])
    event = VideoDeletedEvent() if event is None else event
    await announce(connection, project, hash_, event, change=change)
    await past_files.record(connection, row, change.now_us)
    video_rows.count(connection, project, row.phase, -1)
    return hash_
