"""A project beside the first one, with all that a stream and a video can have."""

from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change
from tests.support.storage.trashed_records import NOW, Furnished, furnish


@pytest.fixture
async def furnished(catalog: Catalog, location: str | Path) -> Furnished:
    """The project, and the numbers of what it has."""
    await catalog.installation.first_start(NOW)
    project = await catalog.projects.add("Furnished", Change(NOW))
    return await furnish(catalog, location, project)
