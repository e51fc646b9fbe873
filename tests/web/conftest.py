"""An origin for the tests of one module, and a browser for all, which takes seconds to start."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.browser import Chromium, chromium
from tests.support.e2e.websocket_clients import installed
from tests.support.web.page_origin import PlaybackOrigin, serving
from tests.support.web.workshop import copy_with_packages


# It is served by a thread of this process, which tests of other folders must not meet: they count
# open descriptors, and replace the event loops' sleep.
@pytest.fixture(scope="module")
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


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working copy of `web/` with its packages."""
    return copy_with_packages(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the third-party clients at their locked versions."""
    return installed(tmp_path_factory.mktemp("clients"))
