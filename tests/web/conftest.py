"""One origin and one browser for all tests of the pages: both take seconds to start."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.browser import Chromium, chromium
from tests.support.web.page_origin import PlaybackOrigin, serving


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[PlaybackOrigin]:
    origin = PlaybackOrigin(tmp_path_factory.mktemp("media"))
    with serving(origin):
        yield origin


@pytest.fixture(scope="session")
def browser() -> Generator[Chromium]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def web() -> Path:
    return Path(__file__).parents[2] / "web"
