"""Workers in processes of their own that are killed or put to sleep at any moment of a film.

Another one ends what they began: the film is whole, what was done is not done again, and who wakes
up late changes no byte of it.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.jobs import LEASE_US
from tests.conftest import Proof
from tests.databases import run_sql
from tests.postgres import PostgresServer
from tests.transcode.shop import Shop, shop, until
from tests.transcode.spanned import is_whole, own_packets

pytestmark = pytest.mark.anyio

_LEASE: float = LEASE_US / 1_000_000
PATIENCE = 180.0  # a busy machine makes the film in a tenth of it
MOMENTS = ("film", "span", "join")


@pytest.fixture(scope="module")
def own_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_packets(tmp_path_factory.mktemp("films"))


@contextmanager
def worker(data: Path, place: str | Path) -> Generator[subprocess.Popen[bytes]]:
    """The real command over a data folder; killed where it is still there."""
    command = [sys.executable, "-c", "from headend.cli import main; main()", "transcode"]
    environment = dict(os.environ)
    if isinstance(place, str):
        environment["HEADEND_DATABASE__URL"] = place
    with (
        (data / "worker.log").open("ab") as log,
        subprocess.Popen(
            [*command, "--data", str(data)], stderr=log, stdout=log, env=environment
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def reached(house: Shop, video: int, hash_: str, moment: str) -> Callable[[], Awaitable[bool]]:
    """Whether a film has come to a moment of its making."""

    async def is_there() -> bool:
        made = await house.made_for(hash_)
        match moment:
            case "film":
                return (await house.status(video)).state == "transcoding"
            case "span":
                return any("-s" in name for name in made)
            case _:
                return (await house.status(video)).progress >= 99

    return is_there


def done_spans(place: str | Path) -> set[tuple[int, int]]:
    """Number and attempt of the spans that are done."""
    rows = run_sql(place, "SELECT number, attempt FROM spans WHERE state = 'done' AND number > 0")
    return {(int(str(number)), int(str(attempt))) for number, attempt in rows}


async def survives(data: Path, place: str | Path, film: Path, moment: str, delay: float) -> None:
    async with shop(data, place=place) as house:
        added = await house.add(film)
        video, hash_ = added.video.id, added.video.hash
        with worker(data, place) as first:
            await until(reached(house, video, hash_, moment), within=PATIENCE)
            await asyncio.sleep(delay)  # the moment itself, not a wait for something
            first.send_signal(signal.SIGKILL)
            first.wait()
        before = done_spans(place)
        with worker(data, place):
            status = await house.ended(video, within=_LEASE + PATIENCE)
        assert status.state == "completed"
        assert before <= done_spans(place)
        assert len(done_spans(place)) == 2
        assert await is_whole(house, await house.found(video))
        kinds = [event.kind for event in (await house.catalog.list_events(1)).items]
        assert kinds.count("video completed") == 1


def prepared(folder: Path, place: str | Path) -> tuple[Path, str | Path]:
    """A data folder, and the catalog that a worker finds there: a file of SQLite stands in it."""
    data = folder / "data"
    data.mkdir()
    return data, data / "catalog.sqlite" if isinstance(place, Path) else place


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_film_survives_the_death_of_its_worker(
    tmp_path: Path, own_film: Path, moment: str
) -> None:
    data, place = prepared(tmp_path, tmp_path)
    await survives(data, place, own_film, moment, 0.1)


async def test_a_film_survives_it_on_postgresql(
    tmp_path: Path, own_film: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.fresh_database() as url:
        data, place = prepared(tmp_path, url)
        await survives(data, place, own_film, "span", 0.2)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(30))
async def test_a_film_survives_a_death_at_any_moment(
    tmp_path: Path, own_film: Path, both_places: str | Path, seed: int, proof: Proof
) -> None:
    dice = random.Random(seed)
    data, place = prepared(tmp_path, both_places)
    await survives(data, place, own_film, dice.choice(MOMENTS), dice.uniform(0, 2))
    proof("60 deaths of a worker in a film made in stretches", "whole, made once", "all")


async def published(house: Shop, video: int) -> dict[str, bytes]:
    """Every byte that the video's playlists lead to, and the playlists."""
    whole = await house.found(video)
    return {name: await house.objects.get(name) for name in await house.made_for(whole.video.hash)}


@pytest.mark.prove
@pytest.mark.parametrize("moment", ["film", "span"])
async def test_a_worker_that_slept_changes_no_byte_when_it_wakes(
    tmp_path: Path, own_film: Path, moment: str
) -> None:
    data, place = prepared(tmp_path, tmp_path)
    async with shop(data, place=place) as house:
        added = await house.add(own_film)
        video = added.video.id
        with worker(data, place) as first:
            await until(reached(house, video, added.video.hash, moment), within=PATIENCE)
            first.send_signal(signal.SIGSTOP)
            with worker(data, place):
                status = await house.ended(video, within=3 * _LEASE + PATIENCE)
                assert status.state == "completed"
                before = await published(house, video)
                first.send_signal(signal.SIGCONT)
                log = data / "worker.log"

                async def is_aware() -> bool:
                    return "job lost" in log.read_text()

                await until(is_aware, within=PATIENCE)
                first.send_signal(signal.SIGTERM)
                assert first.wait(timeout=30) == 0
        assert await published(house, video) == before
        assert await is_whole(house, await house.found(video))
