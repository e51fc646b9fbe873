"""The columns of what owners say, and that they name only what their project has."""

import pytest

from storage.catalog.engine.database import Database
from storage.catalog.library.details import columns_of
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.errors import NoSuchLabel


async def test_only_what_is_said_is_a_column(database: Database) -> None:
    edit = VideoDetails.edit(title=None, category=None, countries=(642, 40), tags=(1,))
    async with database.writing() as connection:
        assert await columns_of(connection, 1, edit, "Été") == {
            "title": None, "title_fold": "été", "title_plain": "été\nete",
            "category_id": None, "countries": "642,40",
        }  # fmt: skip
        for wrong in (StreamDetails.edit(category=9), StreamDetails.edit(player=9)):
            with pytest.raises(NoSuchLabel):
                await columns_of(connection, 1, wrong)
