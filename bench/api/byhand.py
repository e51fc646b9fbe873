"""The same list written by hand: the same SQL queries with `sqlite3`, behind a Litestar handler.

It returns the same JSON as Headend. It leaves out what a service needs besides: SQLAlchemy,
threads, pools, transactions, validation of the query, errors, documentation. The database is
queried on the event loop's thread.

Standard output carries one JSON line, `listening`, with the port. It serves until SIGTERM.

Usage: python -m bench.api.byhand CATALOG
"""

import asyncio
import hashlib
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from litestar import Litestar, Request, Response, get

from bench.api.ours import BASE, serve

_SIZE: Final = 30
_TOKEN: Final = (
    "SELECT id, name, project_id, write FROM tokens WHERE digest = ? AND revoked_us IS NULL"
)
_PROJECT: Final = "SELECT id, key, name FROM projects WHERE id = ?"
_TOTAL: Final = "SELECT coalesce(sum(number), 0) FROM totals WHERE project_id = ? AND kind = ?"
_PAGE: Final = """
SELECT id, hash, title, file_title, description, name, size, length_us, width, height, state,
    progress, eta, uploaded_us, transcoding_us, completed_us, created_us, updated_us, published,
    published_us, poster_labels, image_us, storage_size
FROM videos WHERE project_id = ? ORDER BY id DESC LIMIT ? OFFSET ?
"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_LEAVE: Final = "autoplay; fullscreen; picture-in-picture; encrypted-media"


def _written(moment_us: int | None) -> str | None:
    if moment_us is None:
        return None
    moment = _EPOCH + timedelta(microseconds=moment_us)
    return moment.isoformat(timespec="microseconds") + "Z"


def _duration(length_us: int) -> str:
    minutes, milliseconds = divmod((length_us + 500) // 1000, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".")
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    return f"PT{text}{seconds}S" if seconds != "0" or not text else f"PT{text}"


def _item(row: tuple[Any, ...], key: str) -> dict[str, Any]:  # Any: columns of every type
    (
        number, hash_, title, file_title, description, name, size, length, width, height, state,
        progress, eta, uploaded, transcoding, completed, created, updated, published, published_us,
        labels, image, stored,
    ) = row  # fmt: skip
    shown = title if title is not None else file_title
    return {
        "id": number,
        "hash": hash_,
        "title": shown,
        "description": description,
        "name": name,
        "size": size,
        "length": ((length + 500) // 1000) / 1000,
        "iso8601_duration": _duration(length),
        "width": width,
        "height": height,
        "video": f"{BASE}/videos/{hash_}/index.m3u8",
        "uploading": state == "uploading",
        "uploaded_at": _written(uploaded),
        "transcoding_progress": progress,
        "transcoding_at": _written(transcoding),
        "transcoding_eta": eta,
        "completed": state == "completed",
        "completed_at": _written(completed),
        "created_at": _written(created),
        "updated_at": _written(updated),
        "published": bool(published),
        "published_at": _written(published_us),
        "published_url": f"{BASE}/videos/{hash_}/index.m3u8",
        "image_urls": {
            label: f"{BASE}/videos/{hash_}/poster/{label}.jpg" for label in labels.split(",")
        },
        "image_update_at": _written(image),
        "embed": {
            "iframe": f'<iframe src="{BASE}/embed/{hash_}" title="{escape(shown)}"'
            f' style="width:100%;aspect-ratio:16/9;border:0" loading="lazy" allow="{_LEAVE}"'
            ' allowfullscreen referrerpolicy="strict-origin-when-cross-origin"></iframe>',
            "script": f'<script async src="{BASE}/embed.js" data-video="{hash_}"'
            f' data-title="{escape(shown)}" data-shape="16/9"></script>',
            "link": f"{BASE}/watch/{hash_}",
        },
        "project_json": f"{BASE}/json/projects/{key}.json",
        "video_json": f"{BASE}/json/videos/{hash_}.json",
        "storage_size": stored,
    }


def _envelope(data: list[dict[str, Any]], path: str, page: int, total: int) -> dict[str, Any]:
    last = max(1, -(-total // _SIZE))
    prev = f"{path}?page={min(page - 1, last)}" if page > 1 else None
    following = f"{path}?page={page + 1}" if page < last else None
    return {
        "data": data,
        "links": {
            "first": f"{path}?page=1", "last": f"{path}?page={last}",
            "prev": prev, "next": following,
        },
        "meta": {
            "current_page": page,
            "from": (page - 1) * _SIZE + 1 if data else None,
            "last_page": last,
            "links": [
                {"url": prev, "label": "« Previous", "active": False},
                *(
                    {"url": f"{path}?page={each}", "label": str(each), "active": each == page}
                    for each in range(1, last + 1)
                ),
                {"url": following, "label": "Next »", "active": False},
            ],
            "path": path,
            "per_page": _SIZE,
            "to": (page - 1) * _SIZE + len(data) if data else None,
            "total": total,
        },
    }  # fmt: skip


def _handler(database: sqlite3.Connection) -> Callable[..., Any]:
    ask = database.execute

    @get("/api/projects/{project_id:str}/videos")
    async def videos(
        request: Request[Any, Any, Any], project_id: str, page: str = "1"
    ) -> Response[bytes]:
        token = request.headers["authorization"].removeprefix("Bearer ")
        caller = ask(_TOKEN, (hashlib.sha256(token.encode()).hexdigest(),)).fetchone()
        if caller is None:
            return Response(b"{}", status_code=401)
        project, key, _ = ask(_PROJECT, (int(project_id),)).fetchone()
        (total,) = ask(_TOTAL, (project, "videos")).fetchone()
        rows = ask(_PAGE, (project, _SIZE, (int(page) - 1) * _SIZE)).fetchall()
        path = f"{BASE}/api/projects/{project_id}/videos"
        envelope = _envelope([_item(row, key) for row in rows], path, int(page), total)
        return Response(
            msgspec.json.encode(envelope),
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    return videos


async def _serve_database(location: Path) -> None:
    with closing(sqlite3.connect(location, isolation_level=None)) as database:
        app = Litestar([_handler(database)], openapi_config=None, logging_config=None)
        await serve(app)


def main() -> None:
    """Parse the command line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_database(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
