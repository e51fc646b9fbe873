"""A catalog with many completed videos, made with SQL in a few seconds."""

import sqlite3
from pathlib import Path
from typing import Final

from storage.catalog import open_catalog

VIDEOS: Final = 100_000
_NOW_US: Final = 1_700_000_000_123_456

# The counters are those that the transactions of the catalog keep.
_ROWS: Final = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO videos (
    project_id, hash, title, file_title, title_fold, description, name, size, length_us, width,
    height, state, phase, progress, eta, reason, warnings, uploaded_us, transcoding_us,
    completed_us, created_us, updated_us, published, published_us, hidden, countries, source,
    generation, media, posters, poster_labels, image_us, storage_size, version
)
SELECT
    :project, printf('V%011d', i), 'Evening news & weather, part ' || i, 'evening-news-' || i,
    'evening news & weather, part ' || i, 'What happened, and what the sky will be like.',
    'evening-news-' || i, 73400320 + i, 1234567890 + i, 1920, 1080, 'completed', 'completed', 100,
    0, '', '[]', :now + i, :now + i + 1, :now + i + 2, :now + i, :now + i + 3, 1, :now + i + 2, 0,
    '', 'sources/x/1', 1, '1-1', 'poster-1-1', '360p,480p,720p,1080p', :now + i + 1, 99000000 + i, 4
FROM n
"""
_TOTALS: Final = """
UPDATE totals SET number = :count
WHERE project_id = :project AND kind IN ('videos', 'videos.completed')
"""


async def fill(location: Path, count: int = VIDEOS) -> tuple[int, str]:
    """Make a catalog with `count` videos; return their project's number and its owner's token."""
    async with open_catalog(location, migrate=True) as catalog:
        first = await catalog.installation.first_start(_NOW_US)
    facts = {"count": count, "project": first.project.id, "now": _NOW_US}
    connection = sqlite3.connect(location)
    try:
        with connection:
            connection.execute(_ROWS, facts)
            connection.execute(_TOTALS, facts)
    finally:
        connection.close()
    return first.project.id, str(first.owner_token)
