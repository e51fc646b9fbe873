"""What viewers may see of streams and videos (`catalog.visibility`)."""

from typing import Final

import msgspec
from sqlalchemy import select

from media.countries import decode_countries
from media.stream_keys import PublicHash
from storage.catalog.engine.database import Database
from storage.catalog.queries.project_lookup import is_of_present
from storage.catalog.records.common import PlayerOptions, PublicRecord
from storage.catalog.records.settings import effective_settings
from storage.catalog.schema.tables import cdn_folders, players, projects, streams, videos

_IN_USE: Final = cdn_folders.c.withdrawn_us.is_(None)
_OF_STREAMS: Final = (
    select(
        streams.c.project_id,
        streams.c.title,
        streams.c.description,
        streams.c.published,
        streams.c.hidden,
        streams.c.created_us,
        streams.c.countries,
        players.c.options,
        streams.c.live,
        streams.c.poster_labels,
        streams.c.image_width,
        streams.c.image_height,
        streams.c.settings,
        projects.c.settings.label("defaults"),
        cdn_folders.c.token,
    )
    .join_from(streams, projects, projects.c.id == streams.c.project_id)
    .outerjoin(players, players.c.id == streams.c.player_id)
    .outerjoin(cdn_folders, (cdn_folders.c.hash == streams.c.hash) & _IN_USE)
)
_OF_VIDEOS: Final = (
    select(
        videos.c.project_id,
        videos.c.title,
        videos.c.description,
        videos.c.published,
        videos.c.hidden,
        videos.c.created_us,
        videos.c.countries,
        players.c.options,
        videos.c.file_title,
        videos.c.media,
        videos.c.posters,
        videos.c.previews,
        videos.c.poster_labels,
        videos.c.length_us,
        videos.c.width,
        videos.c.height,
        videos.c.state,
        cdn_folders.c.token,
    )
    .select_from(videos)
    .outerjoin(players, players.c.id == videos.c.player_id)
    .outerjoin(cdn_folders, (cdn_folders.c.hash == videos.c.hash) & _IN_USE)
)
_STREAM_PRESENT: Final = is_of_present(streams.c.project_id)
_VIDEO_PRESENT: Final = is_of_present(videos.c.project_id)


class Visibility:
    """Reads what viewers may see; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, hash_: PublicHash, /) -> PublicRecord | None:
        """Return what viewers may see of the stream or video with that hash; None for neither."""
        async with self._database.reading() as connection:
            of_stream = _OF_STREAMS.where(streams.c.hash == hash_, _STREAM_PRESENT)
            row = (await connection.execute(of_stream)).one_or_none()
            if row is not None:
                return PublicRecord(
                    hash=hash_,
                    project=row.project_id,
                    title=row.title,
                    description=row.description,
                    published=row.published,
                    hidden=row.hidden,
                    live=row.live,
                    countries=_letters(row.countries),
                    player=_options(row.options),
                    poster_labels=_labels(row.poster_labels),
                    width=row.image_width,
                    height=row.image_height,
                    created_us=row.created_us,
                    latency=effective_settings(row.settings, row.defaults).latency,
                    cdn_token=row.token,
                )
            of_video = _OF_VIDEOS.where(videos.c.hash == hash_, _VIDEO_PRESENT)
            row = (await connection.execute(of_video)).one_or_none()
            if row is None:
                return None
            return PublicRecord(
                hash=hash_,
                project=row.project_id,
                title=row.title or row.file_title,
                description=row.description,
                published=row.published,
                hidden=row.hidden,
                live=False,
                kind="video",
                countries=_letters(row.countries),
                player=_options(row.options),
                media=row.media,
                posters=row.posters,
                previews=row.previews,
                poster_labels=_labels(row.poster_labels),
                length_us=row.length_us,
                width=row.width,
                height=row.height,
                created_us=row.created_us,
                failed=row.state == "failed" and row.media is None,
                cdn_token=row.token,
            )


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
