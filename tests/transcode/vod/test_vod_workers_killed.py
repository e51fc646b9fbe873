"""Two workers in processes of their own, one of which is killed or stopped at any moment.

The other one finishes its work: the film is whole, no span is encoded twice, no job is left, and a
worker that wakes up late changes no byte.
"""

import asyncio
import hashlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import psycopg
import pytest

from storage.catalog.records.videos import VideoRecord, WholeVideo
from tests.conftest import Proof
from tests.support.e2e.service import SCALE
from tests.support.e2e.slow_process import children_of
from tests.support.sql import run_sql
from tests.support.transcode.spanned_asset import film_with_own_packets, is_whole
from tests.support.transcode.transcode_fixture import VodFixture, vod_fixture
from tests.support.waiting import until

# Seconds: short, so that a run is quick, but long enough for beats of a busy machine.
_LEASE: Final = 4.0 * SCALE
PATIENCE: Final = 90.0 * SCALE
# How long after a moment has begun a worker is killed, at most: all but span are over soon.
MOMENTS: Final = {"probe": 0.15, "asset": 0.8, "span": 0.5, "stitch": 0.004, "publish": 0.0}
_SPANS: Final = 2
_COARSE, _FINE = 0.01, 0.0015  # seconds between two looks
_SPAN: Final = re.compile(r"[0-9]+-s[0-9]+-([0-9]+)-([0-9]+)")
_ATTEMPT: Final = re.compile(r"(?:poster-)?[0-9]+-(?:[0-9]+|s[0-9]+-[0-9]+-[0-9]+)")


@pytest.fixture(scope="module")
def own_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_with_own_packets(tmp_path_factory.mktemp("films"))


class WorkerProcess(msgspec.Struct, frozen=True):
    """The real command over a data folder, with a log of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def engines(self) -> set[str]:
        """Return the kinds of the engines that it is running now."""
        pids: set[str] = set()
        for child in children_of(self.process.pid):
            with suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if b"transcode.engine" in words:
                    pids.add(words[words.index(b"transcode.engine") + 1].decode())
        return pids

    def moment(self, data: Path, location: str | Path, video: VideoRecord) -> str | None:
        """Return the step of the video that it is working on now."""
        engines = self.engines()
        for kind, moment in (("probe", "probe"), ("asset", "asset"), ("span", "span")):
            if kind in engines:
                return moment
        text = self.log.read_text()
        of_it = f"video={video.hash}"
        joined = re.findall(rf"event=transcoding {of_it} job=\d+ attempt=(\d+)", text)
        if not joined or joined[-1] == "1" or f'event="video completed" {of_it}' in text:
            return None
        if len(done_spans(location, video.id)) < _SPANS:
            return None
        index = data / "objects" / "videos" / video.hash / f"1-{joined[-1]}" / "index.m3u8"
        return "publish" if index.exists() else "stitch"


@contextmanager
def worker(data: Path, location: str | Path, number: int) -> Generator[WorkerProcess]:
    command = [sys.executable, "-c", "from headend.command import main; main()", "transcode"]
    environment = dict(os.environ)
    environment["HEADEND_TRANSCODE__LEASE_SECONDS"] = str(_LEASE)
    if isinstance(location, str):
        environment["HEADEND_DATABASE__URL"] = location
    log = data / f"worker{number}.log"
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [*command, "--data", str(data)], stderr=output, stdout=output, env=environment
        ) as process,
    ):
        try:
            yield WorkerProcess(process, log)
        finally:
            process.kill()


def is_free(location: str | Path) -> bool:
    """Whether no transaction is open that others would have to wait for."""
    try:
        if isinstance(location, Path):
            with closing(sqlite3.connect(location, timeout=0, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        else:
            for table in ("videos", "jobs", "spans"):
                run_sql(location, f"SELECT id FROM {table} FOR UPDATE NOWAIT")
    except (sqlite3.OperationalError, psycopg.errors.LockNotAvailable):
        return False
    return True


def caught(
    workers: list[WorkerProcess],
    data: Path,
    location: str | Path,
    video: VideoRecord,
    wanted: str,
    delay: float,
) -> tuple[WorkerProcess, str | None] | None:
    """Let workers run in slices until one reaches a step, and `delay` seconds on; then stop it.

    Returns the worker and its step when it was stopped, or None if the step went by unseen: the
    last ones are shorter than a slice may be.
    """
    over = f'event="video completed" video={video.hash}'
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        near = sum(each.log.read_text().count('event="span done"') for each in workers)
        for each in workers:
            each.process.send_signal(signal.SIGSTOP)
            moment = each.moment(data, location, video)
            if moment == wanted or (wanted == "stitch" and moment == "publish"):
                each.process.send_signal(signal.SIGCONT)
                time.sleep(delay)
                each.process.send_signal(signal.SIGSTOP)
                return each, each.moment(data, location, video)
            each.process.send_signal(signal.SIGCONT)
        if any(over in each.log.read_text() for each in workers):
            return None
        time.sleep(_FINE if near else _COARSE)
    raise AssertionError(f"no worker came to {wanted}")


def done_spans(location: str | Path, video: int) -> set[tuple[int, int]]:
    """Return number and attempt of a video's spans that are done."""
    rows = run_sql(
        location,
        "SELECT spans.number, spans.attempt FROM spans JOIN jobs ON jobs.id = spans.job_id"
        f" WHERE jobs.video_id = {video} AND spans.state = 'done' AND spans.number > 0",
    )
    return {(int(str(number)), int(str(attempt))) for number, attempt in rows}


def published_spans(folders: set[str]) -> set[tuple[int, int]]:
    """Return number and attempt of the spans that some folders hold."""
    matches = (_SPAN.fullmatch(folder) for folder in folders)
    return {(int(each[1]), int(each[2])) for each in matches if each and each[1] != "0"}


async def named(vod: VodFixture, whole: WholeVideo) -> set[str]:
    """Return the folders that a video's playlists name."""
    folders = {str(whole.video.media), str(whole.video.posters)}
    variants = await vod.variants(whole)
    for each in (*variants.variants, *variants.sounds):
        for segment in (await vod.playlist(whole, each.uri)).segments:
            if segment.uri.startswith("../../"):
                folders.add(segment.uri.split("/")[2])
    return folders


async def has_ended_well(vod: VodFixture, location: str | Path, whole: WholeVideo) -> bool:
    """Whether a film is whole, was completed once, and nothing is left to do."""
    assert await is_whole(vod, whole)
    video = whole.video
    assert run_sql(location, f"SELECT state FROM jobs WHERE video_id = {video.id}") == []
    kinds = [each.kind for each in (await vod.catalog.events.find_page(1)).items
             if each.subject == video.hash]  # fmt: skip
    assert kinds.count("video completed") == 1
    return True


async def survives(
    vod: VodFixture, data: Path, location: str | Path, film: Path, workers: list[WorkerProcess], *,
    wanted: str, delay: float,
) -> tuple[WorkerProcess, str | None] | None:  # fmt: skip
    """Kill a worker and let the other one finish the film; return it and the step."""
    added = (await vod.add(film)).video
    state = await asyncio.to_thread(caught, workers, data, location, added, wanted, delay)
    if state is None:
        return None
    victim, moment = state
    victim.process.send_signal(signal.SIGKILL)
    victim.process.wait()
    before = done_spans(location, added.id)
    assert (await vod.wait_until_ended(added.id, within=_LEASE + PATIENCE)).state == "completed"
    whole = await vod.whole_video(added.id)
    need = await named(vod, whole)
    published = published_spans(need)
    assert before <= published
    assert len(published) == _SPANS
    assert await has_ended_well(vod, location, whole)
    if moment in ("probe", "asset", "span"):  # else it may have had to clean up

        async def is_clean() -> bool:
            names = await vod.stored_objects(added.hash)
            # What an attempt published early before it died stays for its viewers, for an hour.
            replaced = {name.split("/")[2] for name in names if name.endswith("/replaced")}
            have = {name.split("/")[2] for name in names} - replaced
            return {name for name in have if _ATTEMPT.fullmatch(name)} <= need

        await until(is_clean, within=PATIENCE)
    return victim, moment


def prepared(folder: Path, location: str | Path) -> tuple[Path, str | Path]:
    """Return a data folder and its catalog, which is a file of SQLite within it."""
    data = folder / "data"
    data.mkdir()
    return data, data / "catalog.sqlite" if isinstance(location, Path) else location


@pytest.mark.parametrize(
    "either_database",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)],
    indirect=True,
)
@pytest.mark.parametrize(
    ("moments", "each"),
    [
        pytest.param(("span",), 1, id="one"),
        pytest.param(tuple(MOMENTS), 6, id="thirty", marks=pytest.mark.prove),
    ],
)
async def test_films_survive_the_deaths_of_their_workers(
    tmp_path: Path,
    own_film: Path,
    either_database: str | Path,
    moments: tuple[str, ...],
    each: int,
    proof: Proof,
) -> None:
    chance = random.Random(20_26)
    data, location = prepared(tmp_path, either_database)
    fell: Counter[str | None] = Counter()
    async with vod_fixture(data, location=location) as vod:
        with ExitStack() as stack:
            numbers = iter(range(1000))
            workers = [stack.enter_context(worker(data, location, next(numbers)))]
            # A store with media and without a key is refused: they come after the first start.
            await until((data / "objects" / "installation").exists, within=PATIENCE)
            workers.append(stack.enter_context(worker(data, location, next(numbers))))
            for death in range(3 * each * len(moments)):
                lacking = [moment for moment in moments if fell[moment] < each]
                if not lacking:
                    break
                wanted = lacking[death % len(lacking)]
                delay = chance.uniform(0, MOMENTS[wanted])
                killed = await survives(
                    vod, data, location, own_film, workers, wanted=wanted, delay=delay
                )
                if killed is None:
                    continue
                victim, moment = killed
                fell[moment] += 1
                workers[workers.index(victim)] = stack.enter_context(
                    worker(data, location, next(numbers))
                )
    assert all(fell[moment] >= each for moment in moments), fell
    engine = "SQLite" if isinstance(location, Path) else "PostgreSQL"
    where = ", ".join(f"{count} in {moment}" for moment, count in fell.items() if moment)
    proof(
        f"{each * len(moments)} deaths of one of two workers, on {engine}",
        f"all films whole, made once ({where})",
        "all",
    )


async def digest(vod: VodFixture, whole: WholeVideo) -> str:
    """A digest of every byte that the video's folders hold."""
    sha256 = hashlib.sha256()
    for name in await vod.stored_objects(whole.video.hash):
        sha256.update(name.encode() + b"\0" + await vod.objects.get(name))
    return sha256.hexdigest()


@pytest.mark.prove
@pytest.mark.parametrize("moment", ["asset", "span", "stitch"])
async def test_a_worker_that_slept_changes_no_byte_when_it_wakes(
    tmp_path: Path, own_film: Path, either_database: str | Path, moment: str
) -> None:
    data, location = prepared(tmp_path, either_database)
    async with vod_fixture(data, location=location) as vod:
        added = (await vod.add(own_film)).video
        with worker(data, location, 1) as first:
            while True:
                state = await asyncio.to_thread(
                    caught, [first], data, location, added, moment, 0.001
                )
                assert state is not None
                asleep, _ = state
                # A worker stopped in a transaction blocks the others, which is not tested here.
                if is_free(location):
                    break
                asleep.process.send_signal(signal.SIGCONT)
            with worker(data, location, 2):
                assert (
                    await vod.wait_until_ended(added.id, within=3 * _LEASE + PATIENCE)
                ).state == ("completed")
                whole = await vod.whole_video(added.id)
                before = await digest(vod, whole)
                first.process.send_signal(signal.SIGCONT)

                async def is_aware() -> bool:
                    return "job lost" in first.log.read_text()

                await until(is_aware, within=PATIENCE)
                first.process.send_signal(signal.SIGTERM)
                assert first.process.wait(timeout=30 * SCALE) == 0
        assert await digest(vod, whole) == before
        assert await has_ended_well(vod, location, await vod.whole_video(added.id))
