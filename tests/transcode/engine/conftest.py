"""Sources that several tests feed to engines, encoded once."""

from pathlib import Path

import pytest

from tests.support.engine.sources import LOW_480P, LOW_720P, Source, pulses, scenes, source_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.fixture(scope="session")
def two_seconds(folder: Path) -> Source:
    """8 s with the ladder of 720p, a keyframe every 2 s, B-frames and 44.1 kHz mono audio."""
    return source_of(scenes(folder / "two.flv", seconds=8, gop=2, size=LOW_720P))


@pytest.fixture(scope="session")
def small(folder: Path) -> Source:
    """4 s of 360p with a keyframe every 2 s."""
    return source_of(scenes(folder / "small.flv", seconds=4, gop=2))


@pytest.fixture(scope="session")
def pulsing(folder: Path) -> Source:
    """5 s of flashes and beeps."""
    return source_of(pulses(folder / "pulses.flv", seconds=5))


@pytest.fixture(scope="session")
def rare(folder: Path) -> Source:
    """9 s of 480p with a keyframe every 8 s: too far apart for its packets to be reused."""
    return source_of(scenes(folder / "eight.flv", seconds=9, gop=8, size=LOW_480P))
