"""Upload links: used once, and their secret is never stored."""

from functools import partial
from pathlib import Path

from storage.catalog import Catalog
from storage.catalog.events.kinds import UploadExpiredEvent
from storage.catalog.records.common import Change
from storage.catalog.records.details import VideoDetails
from storage.errors import UploadLinkSpent
from tests.support.sql import run_sql
from tests.support.storage.new_videos import count_videos, new_upload

# The same statements on both: what differs between them has tests of its own.
NOW = 1_700_000_000_000_000
HOUR = 3600 * 1_000_000
new = partial(new_upload, expires_us=NOW + HOUR)


async def test_a_link_is_used_once(catalog: Catalog, project: int) -> None:
    number, secret = await catalog.links.add(
        project, VideoDetails(title="T"), Change(NOW, by=1), most_bytes=9, expires_us=NOW + HOUR
    )
    link = await catalog.links.find(secret)
    assert link is not None
    assert (link.id, link.wanted.title, link.most_bytes, link.used) == (number, "T", 9, False)
    assert await catalog.links.find(secret + "x") is None
    assert await catalog.links.find("x" * 10_000) is None
    results: list[bool] = []
    for name in ("one", "two"):
        try:
            await catalog.uploads.begin(project, new(name, link=number), NOW)
            results.append(True)
        except UploadLinkSpent:
            results.append(False)
    assert results == [True, False]
    assert await count_videos(catalog) == (1, 1)
    assert await catalog.links.remove_expired(NOW + 30 * 24 * HOUR) == 0
    await catalog.uploads.remove("one", UploadExpiredEvent, Change(NOW))
    assert await catalog.links.remove_expired(NOW + 30 * 24 * HOUR) == 1
    assert await catalog.links.find(secret) is None


async def test_the_secret_of_a_link_is_nowhere(
    catalog: Catalog, project: int, location: str | Path
) -> None:
    _, secret = await catalog.links.add(
        project, VideoDetails(), Change(NOW, by=1), most_bytes=9, expires_us=NOW + HOUR
    )
    rows = run_sql(location, "SELECT * FROM upload_links")
    rows += run_sql(location, "SELECT * FROM events")
    assert secret not in repr(rows)
