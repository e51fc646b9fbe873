"""What asks for hashes and numbers in the trash; its operations are tested with the repository."""

from pathlib import Path

from sqlalchemy import literal, select

from storage.catalog.engine.database import database_url, open_database
from storage.catalog.queries import trash_rows
from storage.catalog.queries.trash_rows import DeletedRecord, Kind
from storage.catalog.records.common import Change, ProjectRecord


async def test_only_what_was_added_is_found_by_its_kind(
    project: ProjectRecord, location: str | Path
) -> None:
    deleted = DeletedRecord(
        kind="video",
        project=project.id,
        record=7,
        hash="Film12345678",
        title="A film",
        size=3,
        rows={"videos": [{"id": 7}]},
    )
    wanted = ["Film12345678", "Film87654321"]
    cases: list[tuple[Kind, int, bool]] = [
        ("video", 7, True),
        ("video", 8, False),
        ("file", 7, False),
    ]
    async with (
        open_database(database_url(location), create=False) as database,
        database.writing() as connection,
    ):
        await trash_rows.add(connection, deleted, Change(10, keep_us=5))
        assert await trash_rows.find_hashes(connection, wanted, "video") == {"Film12345678"}
        assert await trash_rows.find_hashes(connection, wanted, "stream") == frozenset()
        for kind, number, there in cases:
            condition = trash_rows.has_record(kind, literal(number))
            assert bool((await connection.execute(select(condition))).scalar_one()) is there
        row = await trash_rows.lock(connection, 1)
        assert row is not None
        assert (row.deleted_us, row.until_us, row.rows) == (10, 15, '{"videos":[{"id":7}]}')
        await trash_rows.remove(connection, [1])
        assert await trash_rows.lock(connection, 1) is None
