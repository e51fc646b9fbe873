"""The project that uploads come into."""

import pytest

from storage.catalog import Catalog


@pytest.fixture
async def project(catalog: Catalog) -> int:
    """The first project, by its number."""
    return (await catalog.installation.first_start(1)).project.id
