from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Chromium, chromium
from tests.e2e.publishers import make_source
from tests.e2e.service import Running, service


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source as OBS sends it: 720p30, B-frames, scene cuts, 44.1 kHz sound; 12 s."""
    return make_source(tmp_path_factory.mktemp("source") / "hd.flv", seconds=12)


@pytest.fixture(scope="session")
def small_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, 360p: cheap to serve many times over; 8 s."""
    folder = tmp_path_factory.mktemp("source")
    return make_source(folder / "small.flv", seconds=8, size="640x360")


@pytest.fixture
def headend(tmp_path: Path) -> Iterator[Running]:
    """A fresh service with short windows."""
    environment = {
        "HEADEND_LIVE__GOODBYE_SECONDS": "3",
        "HEADEND_LIVE__RECONNECT_SECONDS": "20",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Debian's Chromium."""
    with chromium() as running:
        yield running
