"""Files fetched from servers that behave and from servers that do not."""

import asyncio
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from outbound.http_client import CheckedClient, FetchRefused, resolve_host
from outbound.policy import parse_web_address
from storage.objects.disk_threads import FILES
from tests.storage.objects.test_disk_threads import occupied
from tests.support.transcode.loopback_download import (
    LOOPBACK,
    MiB,
    always_respond,
    download_from,
    noise,
    open_file,
    refusal_by,
)
from tests.support.transcode.web_servers import (
    WebRequest,
    WebServer,
    file_server,
    response_bytes,
    web_server,
)
from transcode.imports.download import DownloadLimits, download


async def test_a_file_is_downloaded_unchanged(tmp_path: Path) -> None:
    data = noise(3 * MiB + 7)
    async with web_server(file_server(data)) as site:
        downloaded = await download_from(site.url("/a.mp4?sig=1"), site.port, tmp_path)
    assert downloaded.data == data
    assert downloaded.progress[0] == (0, len(data))
    assert downloaded.progress[-1] == (len(data), len(data))
    (request,) = site.requests
    assert request.target == "/a.mp4?sig=1"
    assert request.headers["host"] == f"127.0.0.1:{site.port}"
    assert request.headers["accept-encoding"] == "identity"
    assert not {"authorization", "cookie", "referer"} & set(request.headers)


async def test_a_file_of_unknown_length_comes(tmp_path: Path) -> None:
    chunked = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    async with web_server(
        always_respond(response_bytes("200 OK", "Transfer-Encoding: chunked", body=chunked))
    ) as site:
        downloaded = await download_from(site.url(), site.port, tmp_path)
    assert downloaded.data == b"hello world"
    assert downloaded.progress[0] == (0, None)


# -- where it leads -------------------------------------------------------------------------------


async def test_a_redirect_into_a_private_network_is_not_followed(tmp_path: Path) -> None:
    """The first server may be connected to, the second, on another address, may not."""
    async with web_server(file_server(b"secret")) as inner:
        to = f"Location: http://localhost:{inner.port}/secret"

        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.2"] if host == "localhost" else await resolve_host(host, port)

        async with web_server(
            always_respond(response_bytes("302 Found", to, "Content-Length: 0"))
        ) as outer:
            bounds = DownloadLimits(max_bytes=MiB, ports=frozenset())
            with pytest.raises(FetchRefused, match="not one that files are fetched from"):
                await download_from(outer.url(), outer.port, tmp_path / "a", bounds=bounds)
            with pytest.raises(FetchRefused, match="private network"):
                await _fetch_over(
                    outer, inner, CheckedClient(allowed=LOOPBACK, resolve=resolve), tmp_path
                )
        assert inner.requests == []


async def _fetch_over(
    outer: WebServer, inner: WebServer, remote: CheckedClient, folder: Path
) -> None:
    ports = frozenset({outer.port, inner.port})

    async def tell(received: int, size: int | None) -> None:
        pass

    async with open_file(folder, MiB) as inflow:
        await download(
            parse_web_address(outer.url(), ports),
            inflow,
            client=remote,
            limits=DownloadLimits(max_bytes=MiB, ports=ports),
            on_progress=tell,
        )


async def test_a_redirect_is_followed(tmp_path: Path) -> None:
    async def send_on(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        if request.target == "/film.mp4":
            writer.write(
                response_bytes("307 Temporary Redirect", "Location: /there", "Content-Length: 0")
            )
        else:
            writer.write(response_bytes("200 OK", "Content-Length: 4", body=b"film"))

    async with web_server(send_on) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == b"film"


async def test_redirects_without_end_are_given_up(tmp_path: Path) -> None:
    targets: list[str] = []

    async def send_on(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        targets.append(request.target)
        where = f"Location: /{len(targets)}"
        writer.write(response_bytes("301 Moved Permanently", where, "Content-Length: 0"))

    assert await refusal_by(send_on, tmp_path) == "The server sends us on more than 5 times."
    assert len(targets) == 6


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/a", "http://a:b@127.0.0.1/", "http://["]
)
async def test_a_redirect_to_what_is_no_web_address_is_refused(
    location: str, tmp_path: Path
) -> None:
    moved = response_bytes("302 Found", f"Location: {location}", "Content-Length: 0")
    assert "sends us on to where we do not go" in await refusal_by(always_respond(moved), tmp_path)


# -- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "204 No Content", "410 Gone"])
async def test_an_answer_without_the_file_is_reported(status: str, tmp_path: Path) -> None:
    response = response_bytes(status, *([] if status[:3] == "204" else ["Content-Length: 0"]))
    assert (
        await refusal_by(always_respond(response), tmp_path) == f"The server answered {status[:3]}."
    )


async def test_what_is_not_asked_for_in_part_is_not_taken_in_part(tmp_path: Path) -> None:
    response = response_bytes(
        "206 Partial Content", "Content-Range: bytes 5-8/9", "Content-Length: 4"
    )
    assert (
        await refusal_by(always_respond(response + b"film"), tmp_path) == "The server answered 206."
    )


async def test_a_server_in_trouble_is_asked_again(tmp_path: Path) -> None:
    times: list[int] = []

    async def recover(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(1)
        response = response_bytes("503 Busy", "Content-Length: 0")
        if len(times) == 3:
            response = response_bytes("200 OK", "Content-Length: 4", body=b"film")
        writer.write(response)

    async with web_server(recover) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == b"film"
    busy = always_respond(response_bytes("503 Busy", "Content-Length: 0"))
    assert await refusal_by(busy, tmp_path) == "The server answered 503."


async def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    """A bomb of 10 MB in 10 KB is not unpacked; no compressed answer is."""
    bomb = gzip.compress(bytes(10 * MiB))
    head = ["Content-Encoding: gzip", f"Content-Length: {len(bomb)}"]
    reason = await refusal_by(always_respond(response_bytes("200 OK", *head, body=bomb)), tmp_path)
    assert "compressed" in reason


# -- how much, how long ---------------------------------------------------------------------------


async def test_what_is_announced_too_long_is_not_begun(tmp_path: Path) -> None:
    bounds = DownloadLimits(max_bytes=1000, ports=frozenset())
    response = response_bytes("200 OK", "Content-Length: 1001")
    assert (
        await refusal_by(always_respond(response), tmp_path, bounds)
        == "The file is larger than 1000 bytes."
    )


async def test_a_body_without_end_is_cut_off(tmp_path: Path) -> None:
    sent_bytes = 0

    async def pour(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal sent_bytes
        writer.write(response_bytes("200 OK", "Transfer-Encoding: chunked"))
        while True:
            writer.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            await writer.drain()
            sent_bytes += 65536

    bounds = DownloadLimits(max_bytes=2 * MiB, ports=frozenset())
    assert "larger than" in await refusal_by(pour, tmp_path, bounds)
    assert sent_bytes < 20 * MiB  # the kernel's buffers take some of it


async def test_a_dripping_server_is_given_up(tmp_path: Path) -> None:
    async def drip(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response_bytes("200 OK", "Content-Length: 1000000"))
        while True:
            writer.write(b"d")
            await writer.drain()
            await asyncio.sleep(0.01)

    bounds = DownloadLimits(max_bytes=MiB, ports=frozenset(), quiet_seconds=0.3, least_bytes=1000)
    reason = await refusal_by(drip, tmp_path, bounds)
    assert reason == "The server is too slow: less than 1000 bytes came within 0.3 s."


async def test_a_server_is_not_blamed_for_a_disk_that_stalls(tmp_path: Path) -> None:
    data = noise(3 * MiB)
    bounds = DownloadLimits(max_bytes=4 * MiB, ports=frozenset(), quiet_seconds=0.5, least_bytes=1)
    async with web_server(file_server(data)) as site, asyncio.TaskGroup() as tasks:
        with occupied(FILES, tasks):
            downloading = tasks.create_task(
                download_from(site.url(), site.port, tmp_path, bounds=bounds)
            )
            await asyncio.sleep(1.5)
            assert not downloading.done()
        assert (await downloading).data == data
    assert len(site.requests) == 1


async def test_a_server_that_sends_a_little_in_each_attempt_is_given_up(tmp_path: Path) -> None:
    size = 1000 * MiB

    async def crawl(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        start = request.range_start or 0
        status, lines = "200 OK", [f"Content-Length: {size - start}", 'ETag: "one"']
        if start:
            status = "206 Partial Content"
            lines.append(f"Content-Range: bytes {start}-{size - 1}/{size}")
        writer.write(response_bytes(status, *lines, body=bytes(2 * MiB)))
        await writer.drain()
        await asyncio.sleep(60)

    bounds = DownloadLimits(
        max_bytes=size,
        ports=frozenset(),
        seconds=10,
        quiet_seconds=0.5,
        least_bytes=3 * MiB,
        pause_seconds=0.01,
    )
    reason = await refusal_by(crawl, tmp_path, bounds)
    assert reason == f"The server is too slow: less than {3 * MiB} bytes came within 0.5 s."


async def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def crawl(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response_bytes("200 OK", "Content-Length: 1000000"))
        while True:
            writer.write(bytes(500))
            await writer.drain()
            await asyncio.sleep(0.01)

    bounds = DownloadLimits(max_bytes=MiB, ports=frozenset(), seconds=0.5, least_bytes=1)
    assert await refusal_by(crawl, tmp_path, bounds) == "The file did not come within 0.5 s."
