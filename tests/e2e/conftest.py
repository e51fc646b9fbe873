from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Chromium, chromium
from tests.support.e2e.clock_video import ONE_RUNG, THREE_RUNGS, TWO_RUNGS
from tests.support.e2e.console_pages import axe_rules
from tests.support.e2e.publishers import make_source
from tests.support.e2e.service import ServiceProcess, service
from tests.support.e2e.websocket_clients import installed
from tests.support.web.workshop import copy_with_packages


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source as OBS sends it: 720p30, B-frames, scene cuts, 44.1 kHz sound; 12 s."""
    return make_source(tmp_path_factory.mktemp("source") / "hd.flv", seconds=12)


@pytest.fixture(scope="session")
def three_rungs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller source with the ladder of 720p: passed through, and two encoded rungs; 12 s."""
    folder = tmp_path_factory.mktemp("source")
    return make_source(folder / "three.flv", seconds=12, size=THREE_RUNGS)


@pytest.fixture(scope="session")
def two_rungs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller source with the ladder of 480p: passed through, and one encoded rung; 8 s."""
    folder = tmp_path_factory.mktemp("source")
    return make_source(folder / "two.flv", seconds=8, size=TWO_RUNGS)


@pytest.fixture(scope="session")
def small_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny source with the ladder of 360p, 15 pictures a second: cheap to serve several times,
    and to watch; 8 s.
    """
    folder = tmp_path_factory.mktemp("source")
    return make_source(folder / "small.flv", seconds=8, size=ONE_RUNG, fps=15)


_WINDOWS = {
    "HEADEND_LIVE__GOODBYE_SECONDS": "3",
    "HEADEND_LIVE__RECONNECT_SECONDS": "20",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}


@pytest.fixture
def headend(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A fresh service with short windows."""
    with service(tmp_path / "data", environment=_WINDOWS) as running:
        yield running


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service shared by the tests of a module, since a start takes seconds of CPU."""
    with service(tmp_path_factory.mktemp("shared") / "data", environment=_WINDOWS) as running:
        yield running


@pytest.fixture
def own_service(shared_service: ServiceProcess) -> Iterator[ServiceProcess]:
    """The module's shared service, with a new stream for the test."""
    running = shared_service.another()
    yield running
    running.delete_stream()


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed third-party clients for Node."""
    return installed(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe, which checks the accessibility of pages."""
    return axe_rules(copy_with_packages(tmp_path_factory.mktemp("web")))


@pytest.fixture(scope="session")
def debians_chromium(pytestconfig: pytest.Config) -> Iterator[Chromium]:
    with chromium(whole=pytestconfig.getoption("markexpr") == "prove") as running:
        yield running


@pytest.fixture
def browser(debians_chromium: Chromium) -> Iterator[Chromium]:
    """Debian's Chromium, shared by all tests; closes its pages after each test.

    `make proofs` uses the full browser, `make test` the headless shell.
    """
    yield debians_chromium
    debians_chromium.leave()
