"""Which records of a project can be played in some countries only (`catalog.restrictions`)."""

from typing import Literal

import msgspec
from sqlalchemy import func, select

from media.countries import Country, decode_countries
from storage.catalog.engine.database import Repository
from storage.catalog.schema.tables import streams, videos


class RestrictedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stream or a video, and the countries that it can be played in."""

    kind: Literal["stream", "video"]
    id: int
    title: str
    countries: tuple[Country, ...]


class Restrictions(Repository):
    """Reads the restrictions of a catalog; it changes nothing."""

    async def find(self, project: int, most: int) -> tuple[RestrictedRecord, ...]:
        """Return a project's restricted streams, then its videos, newest first.

        At most `most` of each kind. This reads all records of the project.
        """
        of_streams = select(streams.c.id, streams.c.title, streams.c.countries).where(
            streams.c.project_id == project, streams.c.countries != ""
        )
        title = func.coalesce(videos.c.title, videos.c.file_title)
        of_videos = select(videos.c.id, title, videos.c.countries).where(
            videos.c.project_id == project, videos.c.countries != ""
        )
        kinds: tuple[Literal["stream"], Literal["video"]] = ("stream", "video")
        restricted: list[RestrictedRecord] = []
        async with self._database.reading() as connection:
            for kind, query, table in zip(
                kinds, (of_streams, of_videos), (streams, videos), strict=True
            ):
                rows = await connection.execute(query.order_by(table.c.id.desc()).limit(most))
                restricted += [
                    RestrictedRecord(
                        kind=kind, id=number, title=name, countries=decode_countries(countries)
                    )
                    for number, name, countries in rows
                ]
        return tuple(restricted)
