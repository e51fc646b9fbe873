"""The health of a catalog, on both databases."""

from pathlib import Path

from storage.catalog import Catalog, open_catalog
from storage.catalog.migrations import REVISION
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.videos.jobs import TRANSCODE
from tests.storage.catalog.videos.test_queries import NOW_US, add
from tests.support.shared_engines import ON_BOTH
from tests.support.sql import run_sql
from tests.support.storage.leases import queue_errand

HOUR_US = 3_600_000_000


async def test_a_new_catalog_is_well(catalog: Catalog) -> None:
    name, revision = await catalog.health.versions()
    assert name.startswith(("SQLite 3.", "PostgreSQL 1"))
    assert revision == REVISION
    assert await catalog.health.find_damage() == ()
    assert await catalog.health.find_stuck_jobs(NOW_US) == ()
    assert await catalog.health.find_newest_us() == 0
    assert await catalog.health.find_slates() == ()


@ON_BOTH
async def test_the_revision_is_that_of_the_tables(catalog: Catalog, location: str | Path) -> None:
    newer = f"{REVISION.partition('.')[0]}.99"
    run_sql(location, f"UPDATE alembic_version SET version_num = '{newer}'")
    assert (await catalog.health.versions())[1] == newer


async def test_a_job_that_no_worker_takes_is_stuck(
    catalog: Catalog, project: ProjectRecord
) -> None:
    video = await add(catalog, project)
    assert await catalog.health.find_stuck_jobs(NOW_US + 1) == ()
    (stuck,) = await catalog.health.find_stuck_jobs(NOW_US + HOUR_US)
    assert (stuck.path, stuck.state) == (f"videos/{video.video.hash}", "queued")


async def test_stuck_work_about_a_project_alone_is_found(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    queue_errand(location, project.id, NOW_US)
    (stuck,) = await catalog.health.find_stuck_jobs(NOW_US + HOUR_US)
    assert (stuck.kind, stuck.path) == ("errand", f"projects/{project.key}")


async def test_while_a_worker_works_the_others_wait_their_turn(
    catalog: Catalog, project: ProjectRecord
) -> None:
    await add(catalog, project)
    await add(catalog, project)
    later_us = NOW_US + HOUR_US
    job = await catalog.jobs.lease("me", later_us, TRANSCODE)
    assert job is not None
    assert await catalog.health.find_stuck_jobs(later_us + 1) == ()
    # The worker died, and no other has started.
    states = [each.state for each in await catalog.health.find_stuck_jobs(later_us + HOUR_US)]
    assert states == ["running", "queued"]


@ON_BOTH
async def test_a_worker_is_at_work_while_it_has_a_lease(
    catalog: Catalog, project: ProjectRecord
) -> None:
    await add(catalog, project)
    assert not await catalog.health.is_at_work(NOW_US)
    assert await catalog.jobs.lease("me", NOW_US, TRANSCODE) is not None
    assert await catalog.health.is_at_work(NOW_US + 1)
    assert not await catalog.health.is_at_work(NOW_US + HOUR_US)


@ON_BOTH
async def test_moments_ahead_of_the_clock_are_seen(
    catalog: Catalog, project: ProjectRecord
) -> None:
    await add(catalog, project)
    assert await catalog.health.find_newest_us() == NOW_US
    ahead_us = NOW_US + HOUR_US
    assert await catalog.jobs.lease("me", ahead_us, TRANSCODE) is not None
    assert await catalog.health.find_newest_us() == ahead_us


async def test_slates_are_named_by_their_owners(catalog: Catalog, project: ProjectRecord) -> None:
    stream = await catalog.streams.add(project.id, "Morning", Change(NOW_US))
    name = "AAAAAAAAAAAA"
    await catalog.stream_settings.set_slate(stream.id, name, Change(NOW_US))
    await catalog.project_settings.set_slate(project.id, name, Change(NOW_US))
    mine, ours = f"s-{stream.key.hash}", f"p-{project.key}"
    addresses = {f"slates/{mine}/{name}.jpg", f"slates/{ours}/{name}.jpg"}
    assert set(await catalog.health.find_slates()) == addresses
    assert await catalog.references.slates([mine, ours, "s-unknown"]) == addresses
    assert await catalog.references.slates([mine]) == {f"slates/{mine}/{name}.jpg"}


@ON_BOTH
async def test_tables_that_have_given_half_of_their_numbers_are_named(
    catalog: Catalog, project: ProjectRecord, location: str | Path
) -> None:
    await catalog.streams.add(project.id, "first", Change(1))
    await catalog.labels.add("tag", project.id, "first", Change(1), active=True)
    half = 1 << 30

    def give(table: str, number: int) -> None:
        if isinstance(location, Path):
            run_sql(location, f"UPDATE sqlite_sequence SET seq = {number} WHERE name = '{table}'")
        else:
            run_sql(location, f"SELECT setval('{table}_id_seq', {number})")

    for table, number in (("streams", half - 1), ("tags", half), ("events", half << 2)):
        give(table, number)
    assert await catalog.health.find_far_numbers() == ("tags",)
    give("events", (1 << 62) + 1)
    assert await catalog.health.find_far_numbers() == ("events", "tags")


async def test_numbers_that_are_still_narrow_count_as_such(postgres_url: str) -> None:
    run_sql(
        postgres_url,
        "ALTER TABLE notices ALTER COLUMN id TYPE integer",  # the sequence is wide already
        f"SELECT setval('notices_id_seq', {(1 << 30) + 1})",
        "DROP INDEX ix_events_project_id_id",
    )
    async with open_catalog(postgres_url, migrate=False) as catalog:
        assert await catalog.health.find_far_numbers() == ("notices",)
        expected = ("notices.id", "ix_events_project_id_id")
        assert await catalog.health.find_unfinished() == expected
