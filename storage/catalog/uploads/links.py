"""Upload links: each lets its holder upload one file; only a digest of its secret is stored.

Each function runs within the caller's transaction; `UploadLinks` opens them.
"""

import secrets
from functools import partial
from typing import Final

import msgspec
from sqlalchemy import delete, insert, select, update

from media.ticks import MICROSECONDS
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.engine.database import Repository
from storage.catalog.events.announcement import announce
from storage.catalog.events.kinds import UploadLinkAddedEvent
from storage.catalog.queries import named_rows, project_lookup
from storage.catalog.queries.digest import digest
from storage.catalog.queries.due import Due, count_due
from storage.catalog.queries.row_reader import RowReader
from storage.catalog.records.common import Change, Page
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.uploads import LinkRecord, ListedLink
from storage.catalog.schema.tables import projects as projects_table
from storage.catalog.schema.upload_tables import upload_links, uploads
from storage.catalog.videos import replacement
from storage.errors import UploadLinkSpent

_TABLE: Final = upload_links.c
_BYTES: Final = 24  # of randomness in a link, as in a token
# For this long an expired link is distinguished from one that never existed.
_KEPT_US: Final = 7 * 24 * 3600 * MICROSECONDS
_LONGEST: Final = 128  # ours have 32 characters


_PARSE_DETAILS: Final = partial(msgspec.json.decode, type=VideoDetails)
_READER: Final = RowReader(
    LinkRecord,
    upload_links,
    parsers={"wanted": _PARSE_DETAILS, "origins": project_lookup.words},
    wanted=_TABLE.facts,
    used=_TABLE.used_us.is_not(None),
    project_key=projects_table.c.key,
    origins=projects_table.c.origins,
)
_LISTED: Final = RowReader(
    ListedLink, upload_links, parsers={"wanted": _PARSE_DETAILS}, wanted=_TABLE.facts
)


async def use(connection: AsyncConnection, link: int, now_us: int) -> None:
    """Use a link up.

    Raises:
        UploadLinkSpent: it was used, or its time is over.
    """
    statement = update(upload_links).where(_TABLE.id == link, _TABLE.used_us.is_(None))
    statement = statement.where(_TABLE.expires_us > now_us).values(used_us=now_us)
    if (await connection.execute(statement.returning(_TABLE.id))).one_or_none() is None:
        raise UploadLinkSpent("This link was used, or its time is over.")


class UploadLinks(Repository):
    """The upload links of an open catalog (`catalog.links`)."""

    async def add(
        self,
        project: int,
        details: VideoDetails,
        change: Change,
        *,
        most_bytes: int,
        expires_us: int,
        video: int | None = None,
    ) -> tuple[int, str]:
        """Add a link; returns its number and its secret, which is returned this once.

        `video` is the one whose file may be replaced through it.

        Raises:
            NoSuchProject: there is no such project.
            NoSuchVideo: the project has no such video.
        """
        secret = secrets.token_urlsafe(_BYTES)
        async with self._database.writing() as connection:
            subject = ""
            if video is not None:
                subject = (await replacement.lock_in_project(connection, project, video)).hash
            await project_lookup.require(connection, project)
            statement = insert(upload_links).values(
                project_id=project,
                digest=digest(secret),
                facts=msgspec.json.encode(details).decode(),
                most_bytes=most_bytes,
                expires_us=expires_us,
                created_us=change.now_us,
                video_id=video,
            )
            inserted = await connection.execute(statement.returning(_TABLE.id))
            number = inserted.scalar_one()
            event = UploadLinkAddedEvent(link=number, most_bytes=most_bytes)
            await announce(connection, project, subject, event, change=change)
        return number, secret

    async def find(self, secret: str) -> LinkRecord | None:
        """Return the link with that secret, also if it was used; None if there is none."""
        if len(secret) > _LONGEST:
            return None
        query = select(*_READER.columns).join_from(upload_links, projects_table)
        query = query.where(_TABLE.digest == digest(secret), project_lookup.IS_PRESENT)
        async with self._database.reading() as connection:
            return await _READER.find(connection, query)

    async def find_page(self, project: int, page: int) -> Page[ListedLink]:
        """Return a page of a project's links, newest first."""
        conditions = [_TABLE.project_id == project]
        order = (_TABLE.id.desc(),)
        async with self._database.reading() as connection:
            return await named_rows.page_of(
                connection, upload_links, conditions, order, _LISTED, total=None, page=page
            )

    async def count_expired(self, now_us: int) -> Due:
        """Return how many links have expired for long, of all."""
        async with self._database.reading() as connection:
            is_any = _TABLE.id.is_not(None)
            return await count_due(connection, _TABLE.expires_us < now_us - _KEPT_US, is_any)

    async def remove_expired(self, now_us: int) -> int:
        """Remove links whose time has been over for a while; returns how many."""
        under_way = select(uploads.c.link_id).where(uploads.c.link_id.is_not(None))
        statement = delete(upload_links).where(
            _TABLE.expires_us < now_us - _KEPT_US, _TABLE.id.not_in(under_way)
        )
        async with self._database.writing() as connection:
            return len((await connection.execute(statement.returning(_TABLE.id))).all())
