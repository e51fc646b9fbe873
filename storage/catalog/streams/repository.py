"""A catalog's streams, as their owners change them: each call is a transaction of its own."""

from collections.abc import Sequence

from media.stream_keys import PublicHash
from storage.catalog.engine.database import Database
from storage.catalog.records.common import StreamRecord
from storage.catalog.streams import (
    edits as stream_edits,
)
from storage.catalog.streams import (
    posters as stream_posters,
)
from storage.catalog.streams import (
    queries as stream_queries,
)
from storage.catalog.streams import (
    settings as stream_settings,
)
from storage.catalog.streams import (
    slates,
)
from storage.catalog.streams.edits import StreamChange
from storage.catalog.streams.settings import Chosen, SettingsChange
from storage.catalog.streams.slates import SlateSet

__all__ = ["Streams"]


class Streams:
    """The streams of a catalog.

    `by` is the number of the token whose bearer asked. None in place of a record, and False, say
    that there is no such stream (any more). Where ingest must know of a change, its command's
    number is in the answer (see `storage.catalog.streams.commands`).
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def edit(
        self, stream: int, change: StreamChange, *, now_us: int, by: int | None
    ) -> StreamRecord | None:
        """Change what a stream is called and sorted under, where it plays, what it makes.

        Raises:
            NoSuchLabel: a category, a tag or a player is none of its project.
        """
        async with self._database.writing() as connection:
            await stream_edits.edit(connection, stream, change, now_us, by)
            return await stream_queries.find(connection, stream)

    async def publish(self, stream: int, *, now_us: int, by: int | None) -> StreamRecord | None:
        """Show a stream to viewers."""
        async with self._database.writing() as connection:
            await stream_edits.publish(connection, stream, now_us, by)
            return await stream_queries.find(connection, stream)

    async def unpublish(self, stream: int, *, now_us: int, by: int | None) -> StreamRecord | None:
        """Hide a stream from viewers until it is published again."""
        async with self._database.writing() as connection:
            await stream_edits.unpublish(connection, stream, now_us, by)
            return await stream_queries.find(connection, stream)

    async def rotate(self, stream: int, *, now_us: int, by: int | None) -> int | None:
        """Give a stream a fresh key; returns the command that closes who has the old one."""
        async with self._database.writing() as connection:
            return await stream_edits.rotate(connection, stream, now_us, by)

    async def ask_end(
        self, stream: int, *, now_us: int, deadline_us: int, by: int | None
    ) -> int | None:
        """Ask for the end of a stream's run until a moment; returns the command."""
        async with self._database.writing() as connection:
            return await stream_edits.ask_end(connection, stream, now_us, deadline_us, by)

    async def ask_drill(
        self, stream: int, *, now_us: int, deadline_us: int, by: int | None
    ) -> int | None:
        """Ask for a switch to another encoder until a moment; returns the command.

        Raises:
            StreamStateConflict: the stream is not live, or it is paused.
        """
        async with self._database.writing() as connection:
            return await stream_edits.ask_drill(connection, stream, now_us, deadline_us, by)

    async def pause(self, stream: int, *, now_us: int, by: int | None) -> int | None:
        """Show viewers the slate until the stream is resumed; returns the command.

        Raises:
            StreamStateConflict: the stream is not live, or it is paused already.
        """
        async with self._database.writing() as connection:
            return await stream_edits.pause(connection, stream, now_us, by)

    async def resume(self, stream: int, *, now_us: int, by: int | None) -> int | None:
        """Show viewers the encoder on air again; returns the command.

        Raises:
            StreamStateConflict: the stream is not paused.
        """
        async with self._database.writing() as connection:
            return await stream_edits.resume(connection, stream, now_us, by)

    async def remove(self, stream: int, *, now_us: int, by: int | None) -> int | None:
        """Delete a stream; returns the command that ends what runs of it."""
        async with self._database.writing() as connection:
            return await stream_edits.remove(connection, stream, now_us, by)

    async def add_backup(
        self, stream: int, *, now_us: int, by: int | None
    ) -> tuple[StreamRecord, int] | None:
        """Give a stream another ingest address; returns the stream and the backup's number.

        Raises:
            TooManyBackups: it has all that it may have.
        """
        async with self._database.writing() as connection:
            backup = await stream_edits.add_backup(connection, stream, now_us, by)
            record = await stream_queries.find(connection, stream)
            return None if backup is None or record is None else (record, backup)

    async def remove_backup(self, stream: int, backup: int, *, now_us: int, by: int | None) -> bool:
        """Take an ingest address away.

        Raises:
            BackupInUse: its encoder is sending.
        """
        async with self._database.writing() as connection:
            return await stream_edits.remove_backup(connection, stream, backup, now_us, by)

    async def set_posters(
        self, hash_: PublicHash, labels: Sequence[str], size: tuple[int, int], *, now_us: int
    ) -> bool:
        """Write down that a stream has new posters, the largest of that size."""
        async with self._database.writing() as connection:
            return await stream_posters.set_posters(connection, hash_, labels, size, now_us)

    async def settings(self, stream: int) -> Chosen | None:
        """Return what was set for a stream."""
        async with self._database.reading() as connection:
            return await stream_settings.find_stream(connection, stream)

    async def set(
        self, stream: int, change: SettingsChange, *, now_us: int, by: int | None
    ) -> Chosen | None:
        """Set what a stream's runs do; returns what is set then."""
        async with self._database.writing() as connection:
            return await stream_settings.change_stream(connection, stream, change, now_us, by)

    async def set_slate(
        self, stream: int, name: str | None, *, now_us: int, by: int | None
    ) -> SlateSet | None:
        """Give a stream the slate's picture of that name, or with None take its own back."""
        async with self._database.writing() as connection:
            return await slates.set_stream(connection, stream, name, now_us, by)

    async def set_project_slate(
        self, project: int, name: str | None, *, now_us: int, by: int | None
    ) -> SlateSet | None:
        """Do the same for all streams of a project that have none of their own."""
        async with self._database.writing() as connection:
            return await slates.set_project(connection, project, name, now_us, by)

    async def project_settings(self, project: int) -> Chosen | None:
        """Return what was set for all streams of a project."""
        async with self._database.reading() as connection:
            return await stream_settings.find_project(connection, project)

    async def set_project(
        self, project: int, change: SettingsChange, *, now_us: int, by: int | None
    ) -> Chosen | None:
        """Set what the runs of a project's streams do; returns what is set then."""
        async with self._database.writing() as connection:
            return await stream_settings.change_project(connection, project, change, now_us, by)
