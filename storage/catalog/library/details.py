"""What owners say of their streams and videos, as columns of their rows.

Runs within the caller's transaction.
"""

from typing import Any

from media.countries import encode_countries
from storage.catalog.engine.connection import AsyncConnection
from storage.catalog.library import labels, players
from storage.catalog.queries.text_search import searchable
from storage.catalog.records.details import Details, Edit


async def columns_of(
    connection: AsyncConnection, project: int, edit: Edit[Any], file_title: str = ""
) -> dict[str, object]:
    """Return the columns that an edit sets; lock the category and the player that it names.

    Tags and resolutions are no columns. `file_title` shows where a video has no title.

    Raises:
        NoSuchLabel: the category or the player is not of the project.
    """
    details: Details = edit.details
    values: dict[str, object] = {}
    for key in edit.keys:
        value = getattr(details, key)
        match key:
            case "title":
                shown = file_title if details.title is None else details.title
                values |= {"title": details.title, **searchable("title", shown)}
            case "category":
                if details.category is not None:
                    await labels.require_category(connection, project, details.category)
                values["category_id"] = value
            case "player":
                if value is not None:
                    await players.require(connection, project, value)
                values["player_id"] = value
            case "countries":
                values["countries"] = encode_countries(details.countries)
            case "tags" | "resolutions":
                pass
            case _:
                values[key] = value
    return values
