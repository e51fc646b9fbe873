"""The videos of an open catalog: each call in a transaction of its own.

What the calls do is in `storage.catalog.videos.queries` and `storage.catalog.videos.edits`. `by`
is the number of the token whose bearer asks.
"""

from collections.abc import Sequence

from media.stream_keys import PublicHash
from storage.catalog.engine.database import Database
from storage.catalog.records.common import Page, ProjectRecord
from storage.catalog.records.videos import (
    Arrived,
    Landed,
    VideoQuery,
    VideoRecord,
    VideoStatus,
    WholeVideo,
)
from storage.catalog.videos import (
    creation as video_creation,
)
from storage.catalog.videos import (
    edits as video_edits,
)
from storage.catalog.videos import (
    queries as video_queries,
)
from storage.catalog.videos import (
    replacement,
)
from storage.catalog.videos.edits import VideoChange

__all__ = ["Videos"]


class Videos:
    """The videos (`catalog.videos`).

    Every method raises `storage.errors.CatalogError` where the database does not answer; those that
    change a video return None where there is none.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, video: int) -> WholeVideo | None:
        """Return the video with that number."""
        async with self._database.reading() as connection:
            return await video_queries.find(connection, video)

    async def page(self, project: ProjectRecord, query: VideoQuery, page: int) -> Page[VideoRecord]:
        """Return a page of a project's videos, newest first."""
        async with self._database.reading() as connection:
            return await video_queries.find_page(connection, project.id, project.key, query, page)

    async def status(self, video: int) -> VideoStatus | None:
        """Return how far the making of a video is."""
        async with self._database.reading() as connection:
            return await video_queries.find_status(connection, video)

    async def free_hash(self) -> PublicHash:
        """Return a public name that no video and no stream has."""
        async with self._database.reading() as connection:
            return await video_queries.free_hash(connection)

    async def known(self, hashes: Sequence[PublicHash]) -> frozenset[PublicHash]:
        """Return those of some hashes that videos have."""
        async with self._database.reading() as connection:
            return await video_queries.known(connection, hashes)

    async def add(self, project: int, file: Arrived, now_us: int, *, by: int | None) -> WholeVideo:
        """Make a video of a file that stands at its address, and queue its job (`arriving.add`).

        Raises:
            NoSuchProject: there is no such project.
            HashTaken: another video or stream has the hash by now.
        """
        async with self._database.writing() as connection:
            return await video_creation.add(connection, project, file, now_us, by=by)

    async def expect(self, project: int, file: Arrived, now_us: int) -> int:
        """Make a video whose file is still to come; returns its number (see `arriving.expect`).

        Raises:
            NoSuchProject: there is no such project.
            HashTaken: another video or stream has the hash by now.
        """
        async with self._database.writing() as connection:
            return await video_creation.expect(connection, project, file, now_us)

    async def arrive(
        self, video: int, file: Landed, now_us: int, *, by: int | None
    ) -> WholeVideo | None:
        """Give a video the file that came; None where it was deleted, or has one."""
        async with self._database.writing() as connection:
            return await video_creation.arrive(connection, video, file, now_us, by=by)

    async def replace(
        self, video: int, file: Landed, now_us: int, *, by: int | None
    ) -> tuple[WholeVideo, str | None] | None:
        """Give a video another file; returns the old one's address, too (`replacing.replace`).

        Raises:
            UploadInProgress: its first file is not there yet.
        """
        async with self._database.writing() as connection:
            return await replacement.replace(connection, video, file, now_us, by=by)

    async def tell_bytes(self, video: int, received: int, size: int | None, now_us: int) -> None:
        """Tell a video's channel how much of its file came, in bytes."""
        async with self._database.writing() as connection:
            await video_creation.tell_bytes(connection, video, received, size, now_us)

    async def remove(self, video: int, now_us: int, *, by: int | None) -> PublicHash | None:
        """Take a video away; returns the hash whose media are to go."""
        async with self._database.writing() as connection:
            return await video_queries.remove(connection, video, now_us, by=by)

    async def edit(
        self, video: int, change: VideoChange, now_us: int, *, by: int | None
    ) -> WholeVideo | None:
        """Change what is set in `change`.

        Raises:
            NoSuchLabel: a tag or the category is none of the video's project.
        """
        async with self._database.writing() as connection:
            return await video_edits.edit(connection, video, change, now_us, by=by)

    async def set_player(
        self, video: int, player: int | None, now_us: int, *, by: int | None
    ) -> WholeVideo | None:
        """Have a video shown in a player of its project, or (None) in the standard one.

        Raises:
            NoSuchLabel: the player is none of the video's project.
        """
        async with self._database.writing() as connection:
            return await video_edits.set_player(connection, video, player, now_us, by=by)

    async def publish(self, video: int, now_us: int, *, by: int | None) -> WholeVideo | None:
        """Show a video, at once or as soon as it plays."""
        async with self._database.writing() as connection:
            return await video_edits.publish(connection, video, now_us, by=by)

    async def unpublish(self, video: int, now_us: int, *, by: int | None) -> WholeVideo | None:
        """Hide a video until it is published again."""
        async with self._database.writing() as connection:
            return await video_edits.unpublish(connection, video, now_us, by=by)

    async def retry(self, video: int, now_us: int, *, by: int | None) -> WholeVideo | None:
        """Queue a failed video again.

        Raises:
            VideoNotFailed: it has not failed, or its file is gone.
        """
        async with self._database.writing() as connection:
            return await video_edits.retry(connection, video, now_us, by=by)

    async def set_posters(
        self, video: int, folder: str, labels: Sequence[str], now_us: int, *, by: int | None
    ) -> tuple[WholeVideo, str | None] | None:
        """Show the posters of a folder; returns the video, and the folder that is not shown now."""
        async with self._database.writing() as connection:
            return await video_edits.set_posters(connection, video, folder, labels, now_us, by=by)
