"""The tags that forms offer: those of a record, and those of its project that are in use."""

from collections.abc import Sequence
from typing import Final

from storage.catalog import Catalog
from storage.catalog.records.common import Named

__all__ = ["tag_choice"]

_MOST: Final = 200  # a longer list is of no use


async def tag_choice(catalog: Catalog, project: int, tags: Sequence[Named]) -> list[str]:
    """Return the names that can be chosen, those of the record's own `tags` first."""
    page = await catalog.labels.find_page("tag", project, size=_MOST)
    names = [tag.name for tag in tags]
    return [*names, *(tag.name for tag in page.items if tag.active and tag.name not in names)]
