"""Each role on its own data folder: what it serves, and when it is ready."""

import logging
import time
from pathlib import Path
from socket import gethostname

import httpx
import pytest

from api.schemas.filenames import slug
from headend.install.installation import install
from headend.roles.wiring import API, INGEST, SERVE, TRANSCODE, Role
from media.ticks import DAY_US, MICROSECONDS
from storage.catalog import open_catalog
from storage.catalog.videos.recordings import MadeRecording
from tests.support.headend.installed import installed, settings_of
from tests.support.plain_http import PLAIN
from tests.support.postgres import PostgresServer
from tests.support.redis_server import redis_server
from tests.support.storage.new_videos import new_upload
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("role", "ingests", "serves"),
    [
        pytest.param(SERVE, True, True, id="serve"),
        pytest.param(INGEST, True, False, id="ingest"),
        pytest.param(API, False, True, id="api"),
        pytest.param(TRANSCODE, False, False, id="transcode"),
    ],
)
async def test_a_role_runs_its_parts_only(
    tmp_path: Path, role: Role, ingests: bool, serves: bool
) -> None:
    settings = await installed(tmp_path, storage__min_free_bytes="0")
    async with (
        role.service(settings) as running,
        httpx.AsyncClient(verify=PLAIN, timeout=30) as client,
    ):
        assert bool(running.rtmp_port) is ingests
        assert (running.tls is not None) is ingests
        assert (running.token_file is not None) is serves
        assert running.token_file is None or running.token_file.exists()
        assert (running.status is not None) is (ingests or serves)
        if running.status is not None:
            ready = await client.get(f"{running.status}/readyz")
            assert (ready.status_code, ready.json()["problems"]) == (200, [])
            metrics = (await client.get(f"{running.status}/metrics")).text
            assert ("headend_ingest_connections" in metrics) is ingests
            assert ("headend_http_answers" in metrics) is serves
            assert "headend_edge_published" in metrics
            assert "process_cpu_seconds_total" in metrics
        if serves:
            page = await client.get(running.addresses.http + "/schema/openapi.json")
            assert page.json()["info"]["title"] == "Headend"


@pytest.mark.parametrize("role", [SERVE, INGEST], ids=lambda role: role.name)
async def test_a_role_that_receives_streams_is_a_host_of_a_shared_database(
    tmp_path: Path, postgres_server: PostgresServer, role: Role
) -> None:
    with postgres_server.fresh_database() as url:
        settings = settings_of(
            tmp_path, database__url=url, hosts__dead_seconds="60", storage__min_free_bytes="0"
        )
        await install(tmp_path, url)
        async with open_catalog(url, migrate=False) as catalog:
            async with (
                role.service(settings) as running,
                httpx.AsyncClient(verify=PLAIN, timeout=30) as client,
            ):

                async def problems() -> str:
                    answer = await client.get(f"{running.status}/readyz")
                    return " ".join(answer.json()["problems"])

                async def is_named_in_problems() -> bool:
                    return "set hosts.name" in await problems()

                async def is_ready() -> bool:
                    return not await problems()

                (host,) = await catalog.hosts.find_all(60)
                assert (host.name, host.role) == (f"{gethostname()}/{role.name}", role.name)
                assert await is_ready()
                other = await catalog.hosts.register(host.name, "ingest", None, "1")
                await until(is_named_in_problems)
                await catalog.hosts.leave(other)
                await until(is_ready)
            assert await catalog.hosts.find_all(60) == ()


@pytest.mark.parametrize("role", [SERVE, INGEST, API], ids=lambda role: role.name)
async def test_a_role_without_its_redis_is_ready_with_a_problem_and_waits(
    tmp_path: Path, role: Role
) -> None:
    with redis_server(tmp_path) as redis:
        redis.stop()
        settings = await installed(tmp_path, redis__url=redis.url, storage__min_free_bytes="0")
        async with (
            role.service(settings) as running,
            httpx.AsyncClient(verify=PLAIN, timeout=30) as client,
        ):

            async def problems() -> list[str]:
                answer = await client.get(f"{running.status}/readyz")
                assert answer.status_code == 200
                return answer.json()["problems"]

            async def is_there() -> bool:
                return not await problems()

            (problem,) = await problems()
            assert problem.startswith("Redis does not answer: ")
            redis.start()
            await until(is_there)


async def test_a_full_disk_makes_a_service_not_ready_and_alive(tmp_path: Path) -> None:
    settings = await installed(tmp_path, storage__min_free_bytes=str(1 << 60))
    async with (
        SERVE.service(settings) as running,
        httpx.AsyncClient(verify=PLAIN, timeout=30) as client,
    ):
        ready = await client.get(f"{running.status}/readyz")
        assert ready.status_code == 503
        (problem,) = ready.json()["problems"]
        assert f"storage.min_free_bytes is {1 << 60}" in problem
        assert (await client.get(f"{running.status}/healthz")).status_code == 200


async def test_a_worker_whose_clock_is_a_month_ahead_removes_what_is_over_and_no_more(
    tmp_path: Path,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with postgres_server.fresh_database() as url:
        settings = settings_of(
            tmp_path, database__url=url, storage__min_free_bytes="0", transcode__cores="1"
        )
        await install(tmp_path, url)
        async with open_catalog(url, migrate=False) as catalog:
            (stream,) = await catalog.streams.find_all()
            now_us = catalog.clock.now_us()
            hashes: dict[str, str] = {}
            for run, days in (("over", -1), ("kept", 20)):
                row = await catalog.recordings.begin(stream.key.hash, run, days, now_us)
                assert row is not None
                hashes[run] = row.hash
                made = MadeRecording(media="1-1", size=3, length_us=1, width=0, height=0, rungs=())
                await catalog.recordings.finish(row, made, now_us, slug)
            for name, hours in (("kept", 24), ("over", -1)):  # removed in this order
                expires_us = now_us + hours * 3600 * MICROSECONDS
                await catalog.uploads.begin(1, new_upload(name, expires_us=expires_us), now_us)
            # The clock of this host; the server has its own.
            right = time.time_ns
            monkeypatch.setattr(time, "time_ns", lambda: right() + 30 * DAY_US * 1000)

            def are_done() -> bool:
                return {"expired recordings removed", "expired uploads removed"} <= {
                    *caplog.messages
                }

            async with TRANSCODE.service(settings):
                await until(are_done)
            assert await catalog.videos.find_known(list(hashes.values())) == {hashes["kept"]}
            assert await catalog.uploads.find("over") is None
            assert await catalog.uploads.find("kept") is not None
