"""Recordings (`catalog.recordings`): runs that are being recorded, and the videos they become.

A recording's row exists from the run's first step until its video does, and reserves the video's
hash. The video's title and visibility are written when the recording begins, as the stream may be
deleted before it ends.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Row, delete, insert, select

from media.stream_keys import PublicHash
from media.ticks import DAY_US, MICROSECONDS, utc
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import RecordedEvent, RecordingExpiredEvent, VideoState
from storage.catalog.library import labels, players
from storage.catalog.queries import project_lookup, removals
from storage.catalog.queries.due import Due, count_due
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.queries.text_search import searchable
from storage.catalog.records.common import Change
from storage.catalog.schema.tables import streams, tags
from storage.catalog.schema.tables import videos as videos_table
from storage.catalog.schema.upload_tables import recorded_times, recordings
from storage.catalog.videos import jobs, rows
from storage.catalog.videos import queries as video_queries
from storage.errors import NoSuchLabel, NoSuchProject
from storage.objects.addresses import video as media_folder

# The folder of a clip's posters while they are those of the stream or video that it is cut out of.
BORROWED_POSTERS: Final = "poster-1-0"
_LONGEST_TITLE: Final = 255  # characters, as the column has it
_COMPLETED: Final = "completed"
_TABLE: Final = recordings.c


class RecordingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the video inherits from its stream, in the form of the columns.

    The numbers are of labels that may be gone by the end. `countries` are those of
    `media.countries.encode_countries`.
    """

    title: str
    description: str = ""
    category: int | None = None
    player: int | None = None
    countries: str = ""
    tags: tuple[int, ...] = ()
    hidden: bool = False
    keep_days: int = 30


class RecordingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is recorded: `hash` is the public name of the video that it becomes."""

    id: int
    project: int
    stream: PublicHash
    run: str
    hash: PublicHash
    facts: RecordingFacts
    created_us: int


def dated_title(title: str, at_us: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a stream's title with the time `at_us`, cut to the length of the column."""
    when = f", {utc(at_us):{form}}"
    return f"{title[: _LONGEST_TITLE - len(when)]}{when}"


class RecordedRung(msgspec.Struct, frozen=True, kw_only=True):
    """A rendition of the picture: `number` is the resolution's public one, `size` in bytes."""

    number: int
    width: int
    height: int
    size: int


class MadeRecording(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a recording when its run is over.

    `media` and `posters` are folders below the video's own, `size` the bytes of all that plays.
    `time` is from when to when it was live, in microseconds of the stream's clock.
    """

    media: str
    size: int
    length_us: int
    width: int
    height: int
    rungs: tuple[RecordedRung, ...]
    posters: str | None = None
    poster_labels: tuple[str, ...] = ()
    time: tuple[int, int] | None = None


class RecordedVideo(msgspec.Struct, frozen=True, kw_only=True):
    """A video to be added, made of a recording.

    `own_title` is its owner's title, if any, and `dated_title` the one that is used otherwise;
    `name` is its slug. `expires_us` is when it is deleted; None: it does not expire.
    """

    project: int
    hash: PublicHash
    facts: RecordingFacts
    made: MadeRecording
    own_title: str | None = None
    dated_title: str
    name: str
    expires_us: int | None


_READER: Final = RowReader(
    RecordingRow,
    recordings,
    parsers={"facts": partial(msgspec.json.decode, type=RecordingFacts)},
    stream=_TABLE.stream_hash,
)


async def find(connection: AsyncConnection, stream: PublicHash, run: str) -> RecordingRow | None:
    """Return the recording of a run."""
    query = select(*_READER.columns).where(_TABLE.stream_hash == stream, _TABLE.run == run)
    return await _READER.find(connection, query)


async def facts_of(
    connection: AsyncConnection,
    kind: Literal["stream", "video"],
    row: Row[Any],  # Any: the row of a whole table has no static type
    title: str,
    keep_days: int = 0,
) -> RecordingFacts:
    """Return what a video inherits from a stream or video, whose row is given."""
    return RecordingFacts(
        title=title,
        description=row.description,
        category=row.category_id,
        player=row.player_id,
        countries=row.countries,
        tags=await labels.tag_numbers(connection, kind, row.id),
        hidden=row.hidden,
        keep_days=keep_days,
    )


async def remove(connection: AsyncConnection, recording: int) -> bool:
    """Remove a recording of which nothing is to be kept; return False if it is gone already."""
    statement = delete(recordings).where(_TABLE.id == recording).returning(_TABLE.id)
    return (await connection.execute(statement)).one_or_none() is not None


async def add_video(connection: AsyncConnection, video: RecordedVideo, now_us: int) -> int:
    """Add the video that a recording, or a part of one, has become; its previews are then due.

    Returns its number. The caller has locked its project.
    """
    number = await _add_row(connection, video, now_us)
    project, rungs = video.project, video.made.rungs
    if rungs:
        resolutions = ((each.number, each.width, each.height, each.size) for each in rungs)
        await rows.add_resolutions(connection, number, resolutions, transcoded=True)
        await jobs.enqueue(connection, number, now_us, jobs.PREVIEWS)
    await labels.link_tags(connection, project, "video", number, video.facts.tags, now_us)
    await announce(connection, project, video.hash, VideoState(), change=Change(now_us))
    return number


async def _add_row(connection: AsyncConnection, video: RecordedVideo, now_us: int) -> int:
    facts, made = video.facts, video.made
    return await rows.add(
        connection,
        video.project,
        now_us,
        phase=_COMPLETED,
        posters=made.posters,
        labels=made.poster_labels,
        hash=video.hash,
        title=video.own_title,
        file_title=video.dated_title,
        **searchable("title", video.own_title or video.dated_title),
        description=facts.description,
        name=video.name,
        size=made.size,
        length_us=made.length_us,
        width=made.width,
        height=made.height,
        state=_COMPLETED,
        progress=100,
        uploaded_us=now_us,
        completed_us=now_us,
        published=not facts.hidden,
        published_us=None if facts.hidden else now_us,
        hidden=facts.hidden,
        category_id=facts.category,
        player_id=facts.player,
        countries=facts.countries,
        media=made.media,
        storage_size=made.size,
        version=1,
        expires_us=video.expires_us,
    )


async def _inherited_facts(
    connection: AsyncConnection,
    recording: RecordingRow,
    stream: Row[Any] | None,  # Any: the row of a whole table has no static type
) -> RecordingFacts:
    """Return what the video inherits: as the stream has it now, without labels that are gone.

    Changes that the owner of a deleted stream made after the recording began are not known: the
    video is hidden until the owner decides who may see it.
    """
    if stream is None:
        facts = msgspec.structs.replace(recording.facts, hidden=True)
    else:
        keep_days = recording.facts.keep_days
        facts = await facts_of(connection, "stream", stream, stream.title, keep_days)
    return await with_present_labels(connection, recording.project, facts)


async def with_present_labels(
    connection: AsyncConnection, project: int, facts: RecordingFacts
) -> RecordingFacts:
    """Return facts without labels that the project no longer has; lock the others."""
    category, player = facts.category, facts.player
    try:
        if category is not None:
            await labels.require_category(connection, project, category)
    except NoSuchLabel:
        category = None
    try:
        if player is not None:
            await players.require(connection, project, player)
    except NoSuchLabel:
        player = None
    query = select(tags.c.id).where(tags.c.project_id == project, tags.c.id.in_(facts.tags))
    locked = query.order_by(tags.c.id).with_for_update(read=True, key_share=True)
    remaining = tuple((await connection.execute(locked)).scalars())
    return msgspec.structs.replace(facts, category=category, player=player, tags=remaining)


class Recordings(Repository):
    """The recordings of a catalog (`catalog.recordings`), each call in its own transaction."""

    async def find(self, stream: PublicHash, run: str) -> RecordingRow | None:
        """Return the recording of a run."""
        async with self._database.reading() as connection:
            return await find(connection, stream, run)

    async def find_all(self) -> tuple[RecordingRow, ...]:
        """Return every recording, oldest first: one per run on air, and a few that are over."""
        async with self._database.reading() as connection:
            query = select(*_READER.columns).order_by(_TABLE.id)
            is_present = project_lookup.is_of_present(_TABLE.project_id)
            # What is in the trash may be restored, with what was recorded last.
            query = query.where(is_present | _TABLE.project_id.in_(project_lookup.IN_TRASH))
            return await _READER.find_all(connection, query)

    async def begin(
        self, stream: PublicHash, run: str, keep_days: int, now_us: int
    ) -> RecordingRow | None:
        """Add a recording of a run; None if there is no such stream (any more)."""
        async with self._database.writing() as connection:
            row = (
                await connection.execute(
                    select(streams)
                    .where(
                        streams.c.hash == stream,
                        project_lookup.is_of_present(streams.c.project_id),
                    )
                    .with_for_update()
                )
            ).one_or_none()
            if row is None:
                return None
            existing = await find(connection, stream, run)
            if existing is not None:
                return existing
            facts = await facts_of(connection, "stream", row, row.title, keep_days)
            statement = insert(recordings).values(
                project_id=row.project_id,
                stream_id=row.id,
                stream_hash=stream,
                run=run,
                hash=await video_queries.free_hash(connection),
                facts=msgspec.json.encode(facts).decode(),
                created_us=now_us,
            )
            statement = statement.returning(*_READER.columns)
            return _READER.read((await connection.execute(statement)).one())

    async def finish(
        self,
        recording: RecordingRow,
        made: MadeRecording,
        now_us: int,
        name_of: Callable[[str], str],
    ) -> int | None:
        """Replace a recording with its video, whose previews are then due; returns its number.

        `name_of` makes a title's slug. The number is that of the video if another host has made it
        of the recording meanwhile. None means that the recording is gone with its project: the
        caller must delete its media.
        """
        async with self._database.writing() as connection:
            # Locked in the usual order: the stream, its project, what belongs to that.
            query = select(streams).where(streams.c.hash == recording.stream)
            stream = (await connection.execute(query.with_for_update())).one_or_none()
            try:
                await project_lookup.require(connection, recording.project, or_in_trash=True)
            except NoSuchProject:
                return None
            locked = select(_TABLE.stream_id).where(_TABLE.id == recording.id).with_for_update()
            stream_id = (await connection.execute(locked)).scalar_one_or_none()
            if stream_id is None:
                video_query = select(videos_table.c.id).where(videos_table.c.hash == recording.hash)
                return (await connection.execute(video_query)).scalar_one_or_none()
            await remove(connection, recording.id)
            facts = await _inherited_facts(connection, recording, stream)
            title = dated_title(facts.title, recording.created_us)
            video = RecordedVideo(
                project=recording.project,
                hash=recording.hash,
                facts=facts,
                made=made,
                dated_title=title,
                name=name_of(title),
                expires_us=now_us + facts.keep_days * DAY_US,
            )
            number = await add_video(connection, video, now_us)
            if made.time is not None:
                # Without its row the stream is in the trash, or gone: then nobody asks by its id.
                from_us, to_us = made.time
                values = {"stream_id": stream_id, "from_us": from_us, "to_us": to_us}
                await connection.execute(insert(recorded_times).values(video_id=number, **values))
            seconds = round(made.length_us / MICROSECONDS, 3)
            event = RecordedEvent(video=recording.hash, seconds=seconds)
            await announce(
                connection, recording.project, recording.stream, event, change=Change(now_us)
            )
            return number

    async def remove(self, recording: int) -> bool:
        """Remove a recording of which nothing is to be kept; return False if it is gone already."""
        async with self._database.writing() as connection:
            return await remove(connection, recording)

    async def count_expired(self, now_us: int) -> Due:
        """Return how many recorded videos have expired, of those that will."""
        expires = videos_table.c.expires_us
        async with self._database.reading_all() as connection:
            return await count_due(connection, expires <= now_us, expires.is_not(None))

    async def expire(self, now_us: int) -> str | None:
        """Delete the recorded video that expired first; None: there is none.

        Returns the folder of its media, which the caller moves to the trash;
        `storage.cleanup.removals` does if the caller cannot.
        """
        async with self._database.writing() as connection:
            table = videos_table.c
            expired = select(table.id).where(table.expires_us <= now_us)
            oldest = expired.order_by(table.expires_us, table.id).limit(1)
            # Locked: its owner may keep it, or send another file, at this moment.
            locked = oldest.with_for_update(skip_locked=True)
            video = (await connection.execute(locked)).scalar_one_or_none()
            if video is None:
                return None
            hash_ = await video_queries.remove(
                connection, video, Change(now_us), event=RecordingExpiredEvent(), expired=True
            )
            if hash_ is None:
                return None
            media = media_folder(hash_)
            await removals.record(connection, folders=[media], to_trash=True)
            return media
