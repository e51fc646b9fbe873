"""What viewers may see of streams and videos (`catalog.visibility`)."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import and_, func, literal, select

from media.countries import decode_countries
from media.stream_keys import PublicHash
from storage.catalog.engine.database import Repository
from storage.catalog.queries.project_lookup import IS_PRESENT, is_of_present
from storage.catalog.queries.row_reader import Parsers, RowReader
from storage.catalog.records.common import PlayerOptions, PublicRecord
from storage.catalog.records.settings import effective_settings
from storage.catalog.schema.tables import cdn_folders, players, projects, streams, videos
from storage.objects.addresses import slate_picture

_IN_USE: Final = cdn_folders.c.withdrawn_us.is_(None)


def _letters(countries: str) -> frozenset[str]:
    """Return the two-letter codes of a packed list of countries."""
    return frozenset(country.code for country in decode_countries(countries))


def _options(text: str | None) -> PlayerOptions | None:
    """Parse a player's options; options that cannot be parsed are the standard ones."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=PlayerOptions)
    except msgspec.DecodeError:
        return PlayerOptions()


def _labels(text: str) -> tuple[str, ...]:
    """Return the labels of posters (`360p`), the smallest first."""
    return tuple(sorted((label for label in text.split(",") if label), key=_height))


def _height(label: str) -> int:
    number = label.removesuffix("p")
    return int(number) if number.isdecimal() else 0


_PARSERS: Final[Parsers] = {
    "countries": _letters,
    "player": _options,
    "poster_labels": _labels,
}
_STREAM: Final = RowReader(
    PublicRecord,
    streams,
    parsers=_PARSERS,
    player=players.c.options,
    width=streams.c.image_width,
    height=streams.c.image_height,
    cdn_token=cdn_folders.c.token,
)
_VIDEO: Final = RowReader(
    PublicRecord,
    videos,
    parsers=_PARSERS,
    title=func.coalesce(videos.c.title, videos.c.file_title),
    live=literal(False),
    kind=literal("video"),
    player=players.c.options,
    failed=and_(videos.c.state == "failed", videos.c.media.is_(None)),
    cdn_token=cdn_folders.c.token,
)
_OF_STREAMS: Final = (
    select(*_STREAM.columns, streams.c.settings, projects.c.settings.label("defaults"))
    .join_from(streams, projects, projects.c.id == streams.c.project_id)
    .outerjoin(players, players.c.id == streams.c.player_id)
    .outerjoin(cdn_folders, (cdn_folders.c.hash == streams.c.hash) & _IN_USE)
)
_OF_VIDEOS: Final = (
    select(*_VIDEO.columns)
    .select_from(videos)
    .outerjoin(players, players.c.id == videos.c.player_id)
    .outerjoin(cdn_folders, (cdn_folders.c.hash == videos.c.hash) & _IN_USE)
)
_STREAM_PRESENT: Final = is_of_present(streams.c.project_id)
_VIDEO_PRESENT: Final = is_of_present(videos.c.project_id)


class Visibility(Repository):
    """Reads what viewers may see; each method is one transaction."""

    async def find(self, hash_: PublicHash, /) -> PublicRecord | None:
        """Return what viewers may see of the stream or video with that hash; None for neither."""
        async with self._database.reading() as connection:
            of_stream = _OF_STREAMS.where(streams.c.hash == hash_, _STREAM_PRESENT)
            row = (await connection.execute(of_stream)).one_or_none()
            if row is not None:
                latency = effective_settings(row.settings, row.defaults).latency
                return _STREAM.read(row, latency=latency)
            of_video = _OF_VIDEOS.where(videos.c.hash == hash_, _VIDEO_PRESENT)
            return await _VIDEO.find(connection, of_video)

    async def find_slates(self, owners: Sequence[str]) -> frozenset[str]:
        """Return the addresses of the slates that some owners have set (`s-HASH`, `p-KEY`)."""
        names = [owner[2:] for owner in owners]
        of_streams = select(streams.c.hash, streams.c.slate).where(
            streams.c.hash.in_(names), streams.c.slate.is_not(None), _STREAM_PRESENT
        )
        of_projects = select(projects.c.key, projects.c.slate).where(
            projects.c.key.in_(names), projects.c.slate.is_not(None), IS_PRESENT
        )
        found: set[str] = set()
        async with self._database.reading() as connection:
            for prefix, query in (("s", of_streams), ("p", of_projects)):
                for owner, name in await connection.execute(query):
                    found.add(slate_picture(f"{prefix}-{owner}", name))
        return frozenset(found)
