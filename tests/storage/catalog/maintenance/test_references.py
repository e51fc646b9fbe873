"""What rows refer to, asked of both databases: a janitor keeps it."""

from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.objects.addresses import video_source
from tests.storage.catalog.videos.test_queries import NOW_US, add

# The same statements on both: what differs between them has tests of its own.


async def test_videos_come_in_pages_by_hash(catalog: Catalog, project: ProjectRecord) -> None:
    hashes = sorted([(await add(catalog, project)).video.hash for _ in range(5)])
    first = await catalog.references.page("", 3)
    rest = await catalog.references.page(first[-1].hash, 3)
    # The order of letters depends on the database.
    assert sorted(row.hash for row in (*first, *rest)) == hashes
    assert all(row.at_work for row in first)
    assert await catalog.references.page(rest[-1].hash, 3) == ()
    assert await catalog.references.find_references([first[0].hash]) == first[:1]
    assert await catalog.references.find_references(["unknown"]) == ()


async def test_streams_that_are_still_recorded_are_known(
    catalog: Catalog, project: ProjectRecord
) -> None:
    stream = await catalog.streams.add(project.id, "Morning", Change(NOW_US))
    assert await catalog.references.streams([stream.key.hash, "unknown"]) == {stream.key.hash}
    assert await catalog.recordings.begin(stream.key.hash, "run", 1, NOW_US) is not None
    await catalog.streams.remove(stream.id, Change(NOW_US))
    assert await catalog.references.streams([stream.key.hash]) == {stream.key.hash}


async def test_a_row_names_its_folders_and_the_address_of_its_file(
    catalog: Catalog, project: ProjectRecord
) -> None:
    record = (await add(catalog, project, posters="poster-1", poster_labels=("360p",))).video
    (row,) = await catalog.references.find_references([record.hash])
    assert (row.source, row.posters) == (video_source(record.hash, 1), "poster-1")
    assert (row.media, row.previews, row.subtitles) == (None, None, "[]")


async def test_what_a_deleted_project_had_is_known_until_its_rows_go(
    catalog: Catalog, project: ProjectRecord
) -> None:
    """Its media are removed by its rows, so they are no orphans; nothing asks for its files."""
    other = await catalog.projects.add("other", Change(NOW_US))  # the first cannot be deleted
    record = (await add(catalog, other)).video
    assert await catalog.projects.remove(other.id, Change(NOW_US))
    assert await catalog.references.videos([record.hash, "unknown"]) == {record.hash}
    assert await catalog.references.page("", 9) == ()
