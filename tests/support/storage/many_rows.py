"""Copies a record of a catalog many times: faster than adding records."""

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Table

from storage.catalog.schema.tables import streams, videos
from tests.support.sql import run_sql


def copy_rows(
    location: str | Path, table: Table, number: int, many: int, changed: Mapping[str, str]
) -> None:
    """Copy a row `many` times; `changed` are expressions over the counter `n.n`, from 1."""
    names = [column.name for column in table.columns if column.name != "id"]
    chosen = ", ".join(changed.get(name, f"{table.name}.{name}") for name in names)
    numbers = f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {many})"
    into = f"INSERT INTO {table.name} ({', '.join(names)})"
    select = f"SELECT {chosen} FROM {table.name}, n WHERE {table.name}.id = {number}"
    lite = isinstance(location, Path)
    run_sql(location, f"{numbers} {into} {select}" if lite else f"{into} {numbers} {select}")


def padded(location: str | Path, letter: str) -> str:
    """Return an SQL expression for a hash of twelve characters that begins with a letter."""
    if isinstance(location, Path):
        return f"'{letter}' || substr('00000000000' || n.n, -11)"
    return f"'{letter}' || lpad(CAST(n.n AS TEXT), 11, '0')"


def fill_videos(location: str | Path, video: int, many: int, now_us: int) -> None:
    """Copy a video many times, a day apart: four of five play, the others failed or wait."""
    phase = "CASE n.n % 10 WHEN 0 THEN 'failed' WHEN 5 THEN 'inprogress' ELSE 'completed' END"
    state = "CASE n.n % 10 WHEN 0 THEN 'failed' WHEN 5 THEN 'queued' ELSE 'completed' END"
    changed = {
        "hash": padded(location, "V"),
        "title": "'Film number ' || n.n",
        "title_fold": "'film number ' || n.n",
        "created_us": f"{now_us} - CAST(n.n AS BIGINT) * 86400000000",
        "length_us": "CAST(n.n % 7200 AS BIGINT) * 1000000",
        "size": "CAST(n.n % 977 AS BIGINT) * 1000000",
        "phase": phase,
        "state": state,
    }
    copy_rows(location, videos, video, many, changed)
    kinds = {"videos": "", "videos.completed": "completed"}
    kinds |= {"videos.failed": "failed", "videos.inprogress": "inprogress"}
    for kind, phase in kinds.items():
        of = f" AND videos.phase = '{phase}'" if phase else ""
        counted = f"(SELECT count(*) FROM videos WHERE videos.project_id = totals.project_id{of})"
        run_sql(
            location,
            f"UPDATE totals SET number = {counted} WHERE kind = '{kind}'",
        )


def fill_streams(location: str | Path, stream: int, many: int) -> None:
    """Copy a stream many times, with a backup and resolutions; one of ten is unpublished."""
    changed = {
        "hash": padded(location, "S"),
        "secret_digest": "'digest ' || n.n",
        "title": "'Show number ' || n.n",
        "title_fold": "'show number ' || n.n",
        "hidden": "n.n % 10 = 0",
    }
    copy_rows(location, streams, stream, many, changed)
    others = "SELECT id FROM streams WHERE secret_digest LIKE 'digest %'"
    run_sql(
        location,
        "INSERT INTO stream_backups (stream_id, number, live)"
        f" SELECT others.id, 1, false FROM ({others}) AS others",
        "INSERT INTO stream_resolutions (stream_id, number, active) SELECT others.id, own.number,"
        f" own.active FROM ({others}) AS others, stream_resolutions AS own"
        f" WHERE own.stream_id = {stream}",
        "UPDATE totals SET number = (SELECT count(*) FROM streams"
        " WHERE streams.project_id = totals.project_id) WHERE kind = 'streams'",
    )
