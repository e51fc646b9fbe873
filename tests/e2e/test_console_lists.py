"""Lists of the console and of the API in a large installation: each answer within 200 ms."""

import http.client
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from storage.wall_clock import wall_clock_us
from tests.conftest import Proof
from tests.support.api.upload_clips import clip
from tests.support.e2e.service import SCALE, ServiceProcess, service
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.sql import run_sql
from tests.support.storage.many_rows import fill_streams, fill_videos

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

VIDEOS: Final = 10_000
STREAMS: Final = 500
ROUNDS: Final = 10
MOST_MS: Final = 200
# Queries by their description; {last} is the number of the last page.
VIDEO_PAGES: Final = {
    "first": "",
    "last": "page={last}",
    "searched": "search=number+77",
    "searched, none": "search=nothing",
    "searched, last page": "search=film&page={last}",
    "by title": "sort=title",
    "by title, last page": "sort=title&page={last}",
    "searched, by title": "search=number&sort=title",
    "longest": "sort=longest",
    "largest": "sort=largest",
    "oldest": "sort=oldest",
    "failed": "type=failed",
    "ready": "type=completed",
    "of seven days": "type=recent",
    "of some days": "from=2020-01-01&to=2026-01-01&search=number",
}
STREAM_PAGES: Final = {
    "first": "",
    "last": "page={last}",
    "searched": "search=number+77",
    "searched, none": "search=nothing",
    "by title": "order=title",
    "by title, last page": "order=title&page={last}",
    "searched, by title": "search=number&order=title",
    "oldest": "order=oldest",
    "live": "state=live",
    "off air": "state=idle",
    "unpublished": "state=unpublished",
}
# The console's names of orders, and the API's.
_API_ORDERS: Final = {
    "sort=title": "sort_column=title&sort_order=asc",
    "order=title": "sort_column=title&sort_order=asc",
    "sort=longest": "sort_column=length&sort_order=desc",
    "sort=largest": "sort_column=size&sort_order=desc",
    "sort=oldest": "sort_column=id&sort_order=asc",
    "order=oldest": "sort_column=id&sort_order=asc",
}


class LargeInstallation(msgspec.Struct, frozen=True):
    """A service with many records, and the cookie of its owner's browser."""

    headend: ServiceProcess
    cookie: str
    kind: str

    def milliseconds(self, path: str, token: str = "") -> list[float]:
        """Request a page `ROUNDS` times over one connection; return the time of each answer."""
        connection = http.client.HTTPConnection(urlsplit(self.headend.http).netloc, timeout=30)
        headers = {"Authorization": f"Bearer {token}"} if token else {"Cookie": self.cookie}
        durations: list[float] = []
        try:
            for _ in range(ROUNDS):
                began = time.perf_counter()
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                durations.append((time.perf_counter() - began) * 1000)
                assert answer.status == 200, body
        finally:
            connection.close()
        return durations


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def large(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LargeInstallation]:
    folder = tmp_path_factory.mktemp("large") / "data"
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0", "HEADEND_API__REQUESTS_PER_MINUTE": "0"}
    if request.param == "sqlite":
        with service(folder, environment=environment) as headend:
            yield _filled(headend, folder / "catalog.sqlite", request.param)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.empty_database() as database:
        name = database.partition("@/")[2].partition("?")[0]
        environment["HEADEND_DATABASE__URL"] = server.url(name, "guarded", PASSWORD)
        with service(folder, environment=environment) as headend:
            yield _filled(headend, database, request.param)


def _filled(headend: ServiceProcess, location: str | Path, kind: str) -> LargeInstallation:
    film = headend.data.parent / "film.mp4"
    film.write_bytes(clip("320x180", "1"))
    status, answer = upload(headend, film, title="Film")
    assert status == 201, answer
    completed(headend, answer["video"]["id"], within=60)
    fill_videos(location, answer["video"]["id"], VIDEOS, wall_clock_us())
    fill_streams(location, headend.number, STREAMS)
    run_sql(location, "ANALYZE")
    return LargeInstallation(headend, _cookie(headend), kind)


def _cookie(headend: ServiceProcess) -> str:
    connection = http.client.HTTPConnection(urlsplit(headend.http).netloc, timeout=30)
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "same-origin",
    }
    connection.request("POST", "/console/sign-in", urlencode({"token": headend.token}), headers)
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 303
    return str(answer.getheader("Set-Cookie")).partition(";")[0]


@pytest.mark.parametrize("noun", ["videos", "streams"])
def test_every_page_of_a_long_list_is_there_within_200_ms(
    large: LargeInstallation, proof: Proof, noun: str
) -> None:
    pages, many, a_page = (
        (VIDEO_PAGES, VIDEOS, 30) if noun == "videos" else (STREAM_PAGES, STREAMS, 10)
    )
    for of, path, token in (
        ("console", f"/console/1/{noun}", ""),
        ("API", f"/api/projects/1/{noun}", large.headend.token),
    ):
        times: dict[str, float] = {}
        for what, template in pages.items():
            query = template.format(last=many // a_page)
            for console, api in _API_ORDERS.items() if token else ():
                query = query.replace(console, api)
            # One of ten may be delayed by a checkpoint of the database, or by another process.
            times[what] = sorted(large.milliseconds(f"{path}?{query}", token))[-2]
        slowest = max(times, key=lambda what: times[what])
        proof(
            f"{many} {noun} in {large.kind}, pages of the {of}: median, slowest (9 of 10)",
            f"{statistics.median(times.values()):.0f} ms, {times[slowest]:.0f} ms ({slowest})",
            f"{MOST_MS} ms",
        )
        assert times[slowest] <= MOST_MS * SCALE, times
