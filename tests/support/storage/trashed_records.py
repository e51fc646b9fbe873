"""A project with a stream and a video that have something in every table, and all rows of it."""

from pathlib import Path
from typing import Final

import msgspec

from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.catalog.records.common import Change, PlayerOptions, ProjectRecord, StreamRecord
from storage.catalog.records.details import Edit, StreamDetails, VideoDetails
from storage.catalog.records.videos import VideoFile
from storage.catalog.schema.tables import METADATA
from tests.support.sql import Row, run_sql
from tests.support.storage.new_videos import complete_video, new_video

NOW: Final = 1_700_000_000_000_000
KEEP: Final = Change(NOW + 1, by=1, keep_us=7 * DAY_US)
LATER: Final = Change(NOW + 2, by=1)
HASH: Final = "Film12345678"
SLATE: Final = "Slate1234567"
# What a deletion and a restoration leave behind, and numbers that only rise.
_LEFT: Final = {
    "events", "notices", "commands", "jobs", "removals", "alembic_version", "sessions",
    "sign_in_links", "store_claims", "hosts", "stream_owners",
}  # fmt: skip
_RISING: Final = {"version", "updated_us", "event_number"}


class Furnished(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to delete; `former` is the address of a file that the video had."""

    project: ProjectRecord
    stream: StreamRecord
    video: int
    former: str
    token: str
    link: str


async def furnish(
    catalog: Catalog, location: str | Path, project: ProjectRecord, *, now_us: int = NOW
) -> Furnished:
    """Give a project a stream and a video with labels, player, file, former file, link, token."""
    change = Change(now_us, by=1)
    tag = await catalog.labels.add("tag", project.id, "Tag", change, active=True)
    category = await catalog.labels.add("category", project.id, "News", change, active=True)
    player = await catalog.players.add(project.id, "Small", PlayerOptions(), change)
    stream = await catalog.streams.add(project.id, "A stream", change)
    details = StreamDetails(
        title="A stream", description="d", category=category.id, tags=(tag.id,), player=player.id
    )
    keys = ("title", "description", "category", "tags", "player")
    await catalog.streams.edit(stream.id, Edit(details=details, keys=keys), change)
    await catalog.streams.add_backup(stream.id, change)
    await catalog.stream_settings.set_slate(stream.id, SLATE, change)
    await catalog.project_settings.set_slate(project.id, SLATE, change)
    await catalog.streams.publish(stream.id, change)
    whole = await catalog.videos.add(
        project.id, new_video(HASH, size=100, length_us=60_000_000, rungs=((1, 640, 360),)), change
    )
    video = whole.video.id
    await complete_video(catalog, now_us)
    await catalog.videos.edit(
        video,
        Edit(
            details=VideoDetails(title="A film", category=category.id, tags=(tag.id,)),
            keys=("title", "category", "tags"),
        ),
        change,
    )
    await catalog.videos.set_player(video, player.id, change)
    file = VideoFile(source=f"sources/{HASH}/r-two", size=30, length_us=50_000_000)
    keep = msgspec.structs.replace(change, keep_us=7 * DAY_US)
    await catalog.videos.replace(video, file, keep)
    await complete_video(catalog, now_us, "2-2")
    run_sql(
        location,
        "INSERT INTO recorded_times (video_id, stream_id, from_us, to_us)"
        f" VALUES ({video}, {stream.id}, 1, 2)",
    )
    _, token = await catalog.tokens.add("theirs", project.id, change, write=True)
    _, link = await catalog.links.add(
        project.id, VideoDetails(), change, most_bytes=9, expires_us=now_us * 2, video=video
    )
    found = await catalog.streams.find(stream.id)
    assert found is not None
    former = f"sources/{HASH}/1"
    return Furnished(
        project=project, stream=found, video=video, former=former, token=token, link=link
    )


def all_rows(location: str | Path) -> dict[str, list[Row]]:
    """Return all rows by their tables, without what only rises."""
    rows: dict[str, list[Row]] = {}
    for table in METADATA.sorted_tables:
        if table.name not in _LEFT:
            names = ", ".join(f'"{each.name}"' for each in table.c if each.name not in _RISING)
            query = f'SELECT {names} FROM "{table.name}"'  # constants
            rows[table.name] = sorted(run_sql(location, query), key=repr)
    return rows
