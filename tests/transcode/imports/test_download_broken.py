"""Files from servers that break off: continued, begun again, or given up."""

import asyncio
from pathlib import Path

from tests.support.transcode.loopback_download import (
    MiB,
    always_respond,
    download_from,
    noise,
    refusal_by,
)
from tests.support.transcode.web_servers import WebRequest, file_server, response_bytes, web_server


async def test_a_download_resumes_where_its_connection_broke(tmp_path: Path) -> None:
    data = noise(9 * MiB + 1)
    async with web_server(file_server(data, breaks_after=2 * MiB)) as site:
        downloaded = await download_from(site.url(), site.port, tmp_path)
    assert downloaded.data == data
    begun = [asked.range_start for asked in site.requests]
    assert begun == [0, 2 * MiB, 4 * MiB, 6 * MiB, 8 * MiB]
    assert {asked.headers.get("if-range") for asked in site.requests[1:]} == {'"one"'}


async def test_without_a_validator_it_begins_again(tmp_path: Path) -> None:
    data = noise(3 * MiB)
    times: list[int] = []

    async def break_once(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(request.range_start)
        cut = 2 * MiB if len(times) == 1 else None
        await file_server(data, tag="", breaks_after=cut)(request, writer)

    async with web_server(break_once) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == data
    assert times == [0, 0]


async def test_a_server_that_takes_no_ranges_is_asked_from_the_beginning(tmp_path: Path) -> None:
    data = noise(3 * MiB)
    times: list[int] = []

    async def break_once(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(request.range_start)
        cut = 2 * MiB if len(times) == 1 else None
        await file_server(data, breaks_after=cut, ranges=False)(request, writer)

    async with web_server(break_once) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == data
    assert times == [0, 2 * MiB]  # it was asked for the rest, and sent all of it


async def test_a_file_that_changed_meanwhile_is_not_mixed(tmp_path: Path) -> None:
    old, new = noise(3 * MiB), noise(3 * MiB + 5)
    times: list[int] = []

    async def change(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(1)
        first = len(times) == 1
        serve = file_server(old, breaks_after=2 * MiB) if first else file_server(new, tag='"two"')
        await serve(request, writer)

    async with web_server(change) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == new


async def test_the_message_that_there_is_no_more_is_not_added(tmp_path: Path) -> None:
    """A server that does not announce the length breaks off after the last byte."""
    data = noise(2 * MiB)
    times: list[int] = []

    async def break_at_the_end(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(request.range_start)
        if len(times) == 1:
            chunk = b"%x\r\n%b\r\n" % (len(data), data)
            head = ["Transfer-Encoding: chunked", 'ETag: "one"']
            writer.write(response_bytes("200 OK", *head, body=chunk))
        else:
            message = b"Requested Range Not Satisfiable"
            head = [f"Content-Range: bytes */{len(data)}", f"Content-Length: {len(message)}"]
            writer.write(response_bytes("416 Range Not Satisfiable", *head, body=message))
        await writer.drain()

    async with web_server(break_at_the_end) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == data
    assert times == [0, len(data)]


async def test_a_part_of_another_file_is_not_taken(tmp_path: Path) -> None:
    """A server that ignores If-Range says by tag, length or place that it is not the same."""
    old, new = noise(3 * MiB), noise(3 * MiB + 5)
    for line in ('ETag: "two"', f"Content-Range: bytes {MiB}-{len(new) - 1}/{len(new)}"):
        times: list[int] = []

        async def lie(
            request: WebRequest,
            writer: asyncio.StreamWriter,
            line: str = line,
            times: list[int] = times,
        ) -> None:
            times.append(request.range_start)
            if len(times) == 1:
                await file_server(old, breaks_after=2 * MiB)(request, writer)
            elif request.range_start:
                body = new[request.range_start :]
                at = f"Content-Range: bytes {request.range_start}-{len(new) - 1}/{len(new)}"
                head = [line, *([] if "Range" in line else [at]), f"Content-Length: {len(body)}"]
                writer.write(response_bytes("206 Partial Content", *head, body=body))
            else:
                await file_server(new, tag='"two"')(request, writer)

        async with web_server(lie) as site:
            downloaded = await download_from(site.url(), site.port, tmp_path / line[:4])
        assert downloaded.data == new
        assert times == [0, 2 * MiB, 0]


async def test_a_server_that_breaks_off_at_once_is_given_up(tmp_path: Path) -> None:
    times: list[int] = []

    async def stop(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(1)
        await file_server(noise(MiB), breaks_after=1000)(request, writer)

    assert "broke off" in await refusal_by(stop, tmp_path)
    assert len(times) == 3


async def test_a_download_resumes_after_a_reset_connection(tmp_path: Path) -> None:
    data = noise(4 * MiB)
    times: list[int] = []

    async def reset_once(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(request.range_start)
        if len(times) > 1:
            await file_server(data)(request, writer)
            return
        writer.write(response_bytes("200 OK", f"Content-Length: {len(data)}", 'ETag: "one"'))
        writer.write(data[: 2 * MiB])
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.transport.abort()

    async with web_server(reset_once) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == data
    assert times[0] == 0 and len(times) == 2


async def test_dates_that_no_clock_can_show_are_no_validator(tmp_path: Path) -> None:
    data = noise(3 * MiB)
    times: list[int] = []
    dates = (
        "Last-Modified: Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
        "Date: Mon, 01 Jan 99999999999 00:00:00 GMT",
    )

    async def break_once(request: WebRequest, writer: asyncio.StreamWriter) -> None:
        times.append(request.range_start)
        writer.write(response_bytes("200 OK", f"Content-Length: {len(data)}", *dates))
        writer.write(data if len(times) > 1 else data[: 2 * MiB])
        await writer.drain()

    async with web_server(break_once) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == data
    assert times == [0, 0]


async def test_an_end_without_the_announced_bytes_is_no_end(tmp_path: Path) -> None:
    assert "broke off" in await refusal_by(
        always_respond(response_bytes("200 OK", "Content-Length: 100", body=b"film")), tmp_path
    )


async def test_bytes_beyond_the_announced_ones_are_not_the_files(tmp_path: Path) -> None:
    async with web_server(
        always_respond(response_bytes("200 OK", "Content-Length: 4", body=b"film and more"))
    ) as site:
        assert (await download_from(site.url(), site.port, tmp_path)).data == b"film"
