"""Puts the rows of a deleted record back, with its number, its names, its key and its media.

What it refers to may be gone by now: tags, a category, a player. Work on it begins anew. Each
function runs within the caller's transaction, which has locked the row of the trash and removes it.
"""

from typing import Any, Final

from sqlalchemy import Row, delete, select, update

from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import (
    ProjectRestoredEvent,
    StreamRestoredEvent,
    VideoRestoredEvent,
)
from storage.catalog.queries import counters, project_lookup, snapshots
from storage.catalog.queries.snapshots import Snapshot
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import (
    jobs,
    projects,
    stream_tags,
    streams,
    tokens,
    video_tags,
    videos,
)
from storage.catalog.schema.upload_tables import imports, past_files, trash
from storage.catalog.streams import commands
from storage.catalog.streams.repository import DEPENDENTS as OF_STREAMS
from storage.catalog.videos import jobs as video_jobs
from storage.catalog.videos import rows as video_rows
from storage.catalog.videos.recordings import RecordingFacts, with_present_labels
from storage.catalog.videos.trashing import DEPENDENTS as OF_VIDEOS
from storage.leases import WorkKind

_WORK: Final = {
    kind.name: kind for kind in (video_jobs.TRANSCODE, video_jobs.IMPORT, video_jobs.PREVIEWS)
}
_BEGUN_ANEW: Final = {"received": 0, "validator": None}  # what was fetched may be gone


async def restore_stream(
    connection: AsyncConnection,
    deleted: Row[Any],  # Any: the row of a whole table has no static type
    change: Change,
) -> None:
    """Restore a stream; encoders may use its key again."""
    await project_lookup.require(connection, deleted.project_id)
    rows = snapshots.decode(deleted.rows)
    labels = await _labels(connection, deleted.project_id, rows, streams.name, stream_tags.name)
    own = rows[streams.name][0]
    values = {**labels, "version": own["version"] + 1, "updated_us": change.now_us}
    await snapshots.put_back(connection, rows, streams, **values)
    for table in OF_STREAMS:
        await snapshots.put_back(connection, rows, table)
    await commands.end_forgetting(connection, [deleted.record])
    counters.add(connection, deleted.project_id, "streams", 1)
    event = StreamRestoredEvent(stream=deleted.record, title=deleted.title)
    await announce(connection, deleted.project_id, deleted.hash, event, change=change)


async def restore_video(
    connection: AsyncConnection,
    deleted: Row[Any],  # Any: as above
    change: Change,
) -> None:
    """Restore a video, with the files that it had; its work is queued again."""
    await project_lookup.require(connection, deleted.project_id)
    rows = snapshots.decode(deleted.rows)
    labels = await _labels(connection, deleted.project_id, rows, videos.name, video_tags.name)
    own, work = rows[videos.name][0], rows[jobs.name]
    # Attempts are numbered over all work, since they make folders.
    attempt = max([own["attempt"], *(each["attempt"] for each in work)])
    values = {**labels, "version": own["version"] + 1, "updated_us": change.now_us}
    await snapshots.put_back(connection, rows, videos, **values, attempt=attempt)
    for table in OF_VIDEOS:
        await snapshots.put_back(
            connection, rows, table, **(_BEGUN_ANEW if table is imports else {})
        )
    await snapshots.put_back(connection, rows, trash)
    for kind in _kinds(work):
        await video_jobs.enqueue(connection, deleted.record, change.now_us, kind)
    # Its minutes count as those of a file that the project has.
    counted = past_files.c.hash == deleted.hash, past_files.c.generation == own["generation"]
    await connection.execute(delete(past_files).where(*counted))
    video_rows.count(connection, deleted.project_id, own["phase"], 1)
    event = VideoRestoredEvent(title=deleted.title)
    await announce(connection, deleted.project_id, deleted.hash, event, change=change)


async def restore_project(
    connection: AsyncConnection,
    deleted: Row[Any],  # Any: as above
    change: Change,
) -> None:
    """Restore a project with all that it has, and its tokens."""
    number = deleted.project_id
    shown = update(projects).where(projects.c.id == number)
    await connection.execute(
        shown.values(removed_us=None, version=projects.c.version + 1, updated_us=change.now_us)
    )
    await snapshots.put_back(connection, snapshots.decode(deleted.rows), tokens)
    own = select(streams.c.id).where(streams.c.project_id == number)
    await commands.end_forgetting(connection, (await connection.execute(own)).scalars().all())
    event = ProjectRestoredEvent(project=number, key=deleted.hash, name=deleted.title)
    await announce(connection, number, "", event, change=change)


async def _labels(
    connection: AsyncConnection, project: int, rows: Snapshot, table: str, tagged: str
) -> dict[str, int | None]:
    """Return the columns of the labels that the project still has; leave the other tags out."""
    own = rows[table][0]
    facts = RecordingFacts(
        title="",
        category=own["category_id"],
        player=own["player_id"],
        tags=tuple(each["tag_id"] for each in rows[tagged]),
    )
    facts = await with_present_labels(connection, project, facts)
    rows[tagged] = [each for each in rows[tagged] if each["tag_id"] in facts.tags]
    return {"category_id": facts.category, "player_id": facts.player}


def _kinds(work: list[dict[str, Any]]) -> list[WorkKind]:  # Any: columns of every type
    return [_WORK[each["kind"]] for each in work if each["kind"] in _WORK]
