"""A run on a real disk."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.storage.engine_reports import PublicationFixture


@pytest.fixture
def publication_fixture(tmp_path: Path) -> Generator[PublicationFixture]:
    fixture = PublicationFixture(tmp_path)
    with fixture.disk:
        yield fixture
