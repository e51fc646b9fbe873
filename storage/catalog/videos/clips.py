"""Clips (`catalog.clips`): what they can be cut out of, and the videos that they become.

A clip is a part of a run: of one that is live or was the last, or of a recording that is a video by
now. Like a recording, it inherits from the stream; a clip of a video inherits from that video,
which its owner may have restricted or hidden.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, select

from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import ClipAddedEvent
from storage.catalog.queries import project_lookup
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change
from storage.catalog.records.videos import WholeVideo
from storage.catalog.schema.tables import streams, videos
from storage.catalog.schema.upload_tables import recorded_times, recordings
from storage.catalog.videos import queries as video_queries
from storage.catalog.videos.recordings import (
    MadeRecording,
    RecordedVideo,
    RecordingFacts,
    add_video,
    dated_title,
    facts_of,
    with_present_labels,
)

_DATED: Final = "%Y-%m-%d %H:%M:%S"
# So many of the recordings that do not have the requested time are returned.
_MOST_NAMED: Final = 3
_TIMES: Final = recorded_times.c


class RecordedTime(msgspec.Struct, frozen=True, kw_only=True):
    """A recording that is a video: its number, its hash, and when it was live.

    `posters` is the folder of its posters below its own. Times are microseconds since the epoch.
    """

    video: int
    hash: PublicHash
    posters: str | None
    from_us: int
    to_us: int


_RECORDED: Final = RowReader(
    RecordedTime, recorded_times, hash=videos.c.hash, posters=videos.c.posters
)


class ClipSources(msgspec.Struct, frozen=True, kw_only=True):
    """What a clip of a stream can be cut out of, besides its live window.

    `recording` holds the hashes of the recordings under way, by run. `recorded` is the newest
    recording that has all of the requested time; `others` are the newest that do not.
    """

    recording: dict[str, PublicHash]
    recorded: RecordedTime | None
    others: tuple[RecordedTime, ...]


class NewClip(msgspec.Struct, frozen=True, kw_only=True):
    """A clip whose media are stored; it begins at `from_us` of the stream's clock.

    `video` is the number of the video that it was cut out of; None: out of a run.
    """

    hash: PublicHash
    made: MadeRecording
    from_us: int
    title: str | None
    video: int | None


class Clips(Repository):
    """The clips of an open catalog (`catalog.clips`), each call in its own transaction."""

    async def find_sources(self, stream: int, from_us: int, to_us: int) -> ClipSources:
        """Return what a clip of a stream can be cut out of."""
        under_way = select(recordings.c.run, recordings.c.hash)
        under_way = under_way.where(recordings.c.stream_id == stream)
        has_all = (_TIMES.from_us <= from_us) & (_TIMES.to_us >= to_us)
        async with self._database.reading() as connection:
            rows = (await connection.execute(under_way)).all()
            recording = {row.run: row.hash for row in rows}
            recorded = await _recorded(connection, stream, has_all, 1)
            others = () if recorded else await _recorded(connection, stream, ~has_all, _MOST_NAMED)
        return ClipSources(
            recording=recording, recorded=recorded[0] if recorded else None, others=others
        )

    async def add(
        self, stream: int, clip: NewClip, change: Change, name_of: Callable[[str], str]
    ) -> WholeVideo | None:
        """Add the video of a clip; None if its stream was deleted.

        `name_of` makes a title's slug. A clip of a video that was deleted meanwhile is not
        published, since the intended viewers of that video are not known any more.

        Raises:
            NoSuchProject: the project was deleted.
        """
        async with self._database.writing() as connection:
            # Locked in the usual order: the stream, its project, what belongs to that.
            query = select(streams).where(streams.c.id == stream).with_for_update()
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                return None
            await project_lookup.require(connection, row.project_id)
            facts = await _facts(connection, row, clip.video)
            facts = await with_present_labels(connection, row.project_id, facts)
            dated = dated_title(row.title, clip.from_us, _DATED)
            video = RecordedVideo(
                project=row.project_id,
                hash=clip.hash,
                facts=facts,
                made=clip.made,
                own_title=clip.title,
                dated_title=dated,
                name=name_of(clip.title or dated),
                expires_us=None,
            )
            number = await add_video(connection, video, change.now_us)
            seconds = round(clip.made.length_us / MICROSECONDS, 3)
            event = ClipAddedEvent(stream=stream, video=clip.hash, seconds=seconds)
            await announce(connection, row.project_id, row.hash, event, change=change)
            return await video_queries.read(connection, number)


async def _recorded(
    connection: AsyncConnection, stream: int, which: ColumnElement[bool], most: int
) -> tuple[RecordedTime, ...]:
    """Return the newest recordings of a stream that still have the media of their run."""
    query = (
        select(*_RECORDED.columns)
        .join_from(recorded_times, videos, _TIMES.video_id == videos.c.id)
        # One that was given another file has nothing to do with the run any more.
        .where(_TIMES.stream_id == stream, videos.c.source.is_(None), which)
        .order_by(_TIMES.from_us.desc())
        .limit(most)
    )
    return await _RECORDED.find_all(connection, query)


async def _facts(
    connection: AsyncConnection,
    stream: Row[Any],  # Any: the row of a whole table has no static type
    video: int | None,
) -> RecordingFacts:
    """Return what a clip inherits from its video, or else from the stream."""
    if video is not None:
        query = select(videos).where(videos.c.id == video)
        row = (await connection.execute(query)).one_or_none()
        if row is not None:
            return await facts_of(connection, "video", row, stream.title)
    facts = await facts_of(connection, "stream", stream, stream.title)
    return facts if video is None else msgspec.structs.replace(facts, hidden=True)
