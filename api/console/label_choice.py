"""The tags and categories that forms offer: a record's own, and its project's active ones."""

from collections.abc import Sequence
from typing import Final

from storage.catalog import Catalog
from storage.catalog.records.common import Named, Sort

MOST_CHOICES: Final = 500  # of labels or players: a longer list is of no use
BY_NAME: Final = Sort("name", descending=False)


async def tag_choice(catalog: Catalog, project: int, tags: Sequence[Named]) -> list[str]:
    """Return the names that can be chosen, those of the record's own `tags` first."""
    page = await catalog.labels.find_page("tag", project, size=MOST_CHOICES)
    names = [tag.name for tag in tags]
    return [*names, *(tag.name for tag in page.items if tag.active and tag.name not in names)]


async def category_choice(catalog: Catalog, project: int, category: Named | None) -> list[Named]:
    """Return the categories that can be chosen by name, and the record's own `category`."""
    page = await catalog.labels.find_page("category", project, sort=BY_NAME, size=MOST_CHOICES)
    choice = [Named(id=label.id, name=label.name) for label in page.items if label.active]
    if category is not None and category.id not in {each.id for each in choice}:
        choice.append(category)
    return choice
