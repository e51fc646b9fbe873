"""The project of the uploads."""

import pytest

from storage.catalog import Catalog


@pytest.fixture
async def project(catalog: Catalog) -> int:
    """The number of the first project."""
    return (await catalog.installation.first_start(1)).project.id
