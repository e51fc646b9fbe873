"""Engines and services killed at any moment: playlists stay consistent for players."""

import os
import random
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from tests.conftest import Proof
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import ffmpeg, persisting, publishing
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.e2e.strict_player import following
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_SEED = 20_11
_FEW = pytest.param(4, id="a few")
_ALL = pytest.param(50, id="fifty", marks=pytest.mark.prove)
# Five deaths within a minute end a run by design.
_STREAMS = {4: 2, 50: 5}
# After a death within 5 s of its start, the next engine starts half a second later, then a second.
_ASKED = {4: "1 s, and the wait after an early death: 0.5 s or 1 s", 50: "1 s"}
_PAUSE = {4: (0.0, 4.0), 50: (15.5, 19.0)}  # seconds between the deaths of a stream's engines


def engine_of(headend: ServiceProcess, stream: str) -> int | None:
    """Return the process of a stream's engine, which the log names last; None if it has ended."""
    pids = re.findall(
        rf'event="engine started" stream={stream} engine=(\d+)', headend.log.read_text()
    )
    pid = int(pids[-1]) if pids else None
    return pid if Path(f"/proc/{pid}").exists() else None


def kill_engines(
    headend: ServiceProcess,
    record: dict[str, object],
    source: Path,
    *,
    deaths: int,
    pause: tuple[float, float],
    seed: int,
) -> tuple[float, int]:
    """Publish a stream and kill its engines.

    Return the seconds of the slowest new engine, and the number of segments that were followed.
    """
    moments = random.Random(seed)
    hash_, key = str(record["hash"]), str(record["stream"])
    playlist = f"{headend.http}/live/{hash_}/index.m3u8"
    slowest = 0.0
    with publishing(ffmpeg(source, f"{headend.server}/{key}", "-stream_loop", "-1")) as encoder:
        poll(lambda: multivariant(playlist), within=30, what="a playlist")
        with following(playlist) as follower:
            for death in range(deaths):
                time.sleep(moments.uniform(*pause))
                victim = poll(lambda: engine_of(headend, hash_), within=5, what="an engine")
                os.kill(victim, signal.SIGKILL)
                killed = time.monotonic()
                poll(
                    lambda dead=victim: engine_of(headend, hash_) not in {None, dead},
                    within=10,
                    what=f"an engine after death {death + 1}",
                )
                slowest = max(slowest, time.monotonic() - killed)
                # Segments that the killed engine had delivered may come before the discontinuity.
                poll(
                    lambda met=death + 1: follower.marks.get("audio", 0) >= met,
                    within=20,
                    what="going on after a discontinuity",
                )
        assert encoder.poll() is None, "the publisher stayed connected"
    # A busy machine may shed the encoded rung, which is then offered later than the others.
    assert follower.marks["audio"] == deaths, "one discontinuity a death"
    assert all(marks <= deaths for marks in follower.marks.values()), follower.marks
    return slowest, follower.segments


@pytest.mark.parametrize("deaths", [_FEW, _ALL])
def test_an_engine_killed_at_any_moment_leaves_playlists_consistent(
    headend: ServiceProcess, two_rungs: Path, deaths: int, proof: Proof
) -> None:
    streams = _STREAMS[deaths]
    records = [headend.add_stream(f"Stream {number}") for number in range(streams)]
    with ThreadPoolExecutor(streams) as threads:
        killing = [
            threads.submit(
                kill_engines,
                headend,
                record,
                two_rungs,
                deaths=deaths // streams,
                pause=_PAUSE[deaths],
                seed=_SEED + number,
            )
            for number, record in enumerate(records)
        ]
        results = [result.result() for result in killing]
    proof(
        f"{deaths} engines killed at any moment: slowest new one",
        f"{max(slowest for slowest, _ in results):.2f} s",
        _ASKED[deaths],
    )
    proof(
        f"{deaths} engines killed at any moment: segments that a player followed",
        f"{sum(segments for _, segments in results)}, none missing, no hole unmarked",
        "no 404, no number back, no hole unmarked",
    )


@pytest.mark.parametrize("deaths", [pytest.param(2, id="a few", marks=pytest.mark.prove), _ALL])
def test_a_service_killed_at_any_moment_continues_its_run(
    tmp_path: Path, two_rungs: Path, deaths: int, proof: Proof
) -> None:
    moments = random.Random(_SEED + 1)
    folder = tmp_path / "data"
    with service(folder) as first:
        key = first.key
        rtmp, http = first.port_of(first.server), first.port_of(first.http + "/")
        url, playlist = f"{first.server}/{key}", first.playlist
    ports = ("--http", f"127.0.0.1:{http}", "--rtmp", f"[::]:{rtmp}", "--rtmps", "")
    with following(playlist) as follower, persisting(ffmpeg(two_rungs, url, "-stream_loop", "-1")):
        for death in range(deaths + 1):
            with service(folder, arguments=ports) as running:
                reached = follower.newest
                poll(lambda at=reached: follower.newest > at, within=40, what="going on")
                time.sleep(moments.uniform(0.0, 4.0))
                if death < deaths:
                    running.stop(signal.SIGKILL)
    proof(
        f"{deaths} services killed at any moment: segments of one run that a player followed",
        f"{follower.segments}, none missing, no hole unmarked",
        "no 404, no number back, no hole unmarked",
    )


def test_a_project_deleted_just_before_a_kill_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    with service(data, environment=environment) as first:
        projects = f"{first.http}/api/projects"
        answer = fetch(projects, method="POST", token=first.token, body={"name": "Doomed"})
        project = cast("dict[str, object]", answer.json["project"])["id"]
        address = f"{projects}/{project}/streams"
        added = fetch(address, method="POST", token=first.token, body={"title": "A stream"})
        hash_ = cast("dict[str, object]", added.json["stream"])["hash"]
        poster = data / "objects" / "live" / str(hash_) / "poster" / "360p.jpg"
        poster.parent.mkdir(parents=True)
        poster.write_bytes(b"poster")
        assert fetch(f"{first.http}/watch/{hash_}").status == 200
        deletion = fetch(f"{projects}/{project}", method="DELETE", token=first.token)
        first.stop(signal.SIGKILL)
        assert deletion.status == 204
    with service(data, environment=environment) as second:
        address = f"{second.http}/api/projects/{project}/streams"
        assert fetch(address, token=second.token).status == 404
        assert fetch(f"{second.http}/watch/{hash_}").status == 404
        second.empty_trash("/api/trash")
        poll(lambda: not poster.parent.parent.exists(), what="the media are gone")
        poll(lambda: 'event="project removed"' in second.log.read_text(), what="the line")
