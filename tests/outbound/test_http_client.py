"""Connections to untrusted servers: checked addresses, names, certificates, broken HTTP."""

import asyncio
import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from headend.install.certificates import ensure_local_certificates, tls_context
from outbound.http_client import Answer, CheckedClient, FetchInterrupted, FetchRefused
from outbound.policy import parse_networks, parse_web_address
from tests.support.transcode.loopback_download import (
    LOOPBACK,
    MiB,
    always_respond,
    download_from,
    refusal_by,
)
from tests.support.transcode.web_servers import (
    WebRequest,
    file_server,
    response_bytes,
    web_server,
)


async def test_a_private_network_is_not_connected_to(tmp_path: Path) -> None:
    async with web_server(file_server(b"secret")) as site:
        for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1"):
            with pytest.raises(FetchRefused, match="private network"):
                await download_from(
                    site.url(host=host), site.port, tmp_path / host, remote=CheckedClient()
                )
        assert site.requests == []


async def test_a_name_is_looked_up_once_for_a_connection(tmp_path: Path) -> None:
    """A name that is public when it is checked and private a moment later gains nothing."""
    answers = iter([["127.0.0.1"], ["127.0.0.9"]])
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return next(answers)

    async with web_server(file_server(b"film")) as site:
        remote = CheckedClient(allowed=LOOPBACK, resolve=resolve)
        url = site.url(host="media.example")
        assert (await download_from(url, site.port, tmp_path, remote=remote)).data == b"film"
        assert site.requests[0].headers["host"] == f"media.example:{site.port}"
        with pytest.raises(FetchRefused, match="private network"):
            await download_from(url, site.port, tmp_path, remote=remote)
    assert looked_up == ["media.example"] * 2
    assert len(site.requests) == 1


async def test_of_several_addresses_those_that_are_open_are_tried(tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.1", "::1", "127.0.0.3", "127.0.0.1"]

    async with web_server(file_server(b"film")) as site:
        remote = CheckedClient(allowed=parse_networks("127.0.0.0/29"), resolve=resolve)
        downloaded = await download_from(
            site.url(host="a.example"), site.port, tmp_path, remote=remote
        )
    assert downloaded.data == b"film"


async def test_a_name_without_an_address_is_reported(tmp_path: Path) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(FetchRefused, match="cannot be found"):
        await download_from(
            "http://a.example/b", 80, tmp_path, remote=CheckedClient(resolve=resolve)
        )


async def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    async with web_server(file_server(b"")) as site:
        pass
    with pytest.raises(FetchRefused, match="cannot be reached"):
        await download_from(site.url(), site.port, tmp_path)


async def test_the_certificate_is_asked_of_the_name(tmp_path: Path) -> None:
    """The connection goes to an address; the certificate and the SNI use the name."""
    now = datetime.datetime.now(datetime.UTC)
    files = ensure_local_certificates(tmp_path / "tls", ["media.example"], now)
    greeted: list[str] = []

    def greet(_: object, name: str, __: object) -> None:
        greeted.append(name)

    server_context = tls_context(files.leaf, files.leaf_key)
    server_context.sni_callback = greet

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    client_context = ssl.create_default_context(cafile=str(files.authority))
    async with web_server(file_server(b"film"), tls=server_context) as site:
        remote = CheckedClient(allowed=LOOPBACK, resolve=resolve, tls=client_context)
        url = f"https://media.example:{site.port}/film.mp4"
        assert (await download_from(url, site.port, tmp_path, remote=remote)).data == b"film"
        assert greeted == ["media.example"]
        for other, trusted in (("other.example", client_context), ("media.example", None)):
            remote = CheckedClient(allowed=LOOPBACK, resolve=resolve, tls=trusted)
            with pytest.raises(FetchRefused, match="certificate is not valid"):
                await download_from(
                    f"https://{other}:{site.port}/", site.port, tmp_path, remote=remote
                )
        plain = CheckedClient(allowed=LOOPBACK, resolve=resolve)
        with pytest.raises(FetchRefused, match="broke"):
            await download_from(site.url(), site.port, tmp_path, remote=plain)


@pytest.mark.parametrize(
    "said", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"\0" * 9]
)
async def test_an_answer_that_is_not_http_is_reported(said: bytes, tmp_path: Path) -> None:
    assert "broke" in await refusal_by(always_respond(said), tmp_path)


async def test_a_head_without_end_is_not_kept(tmp_path: Path) -> None:
    assert "broke" in await refusal_by(
        always_respond(b"HTTP/1.1 200 OK\r\nA: " + b"a" * MiB), tmp_path
    )


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def wait(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with web_server(wait) as site:
        remote = CheckedClient(allowed=LOOPBACK, answer_seconds=0.2)
        with pytest.raises(FetchRefused, match="did not answer in time"):
            await download_from(site.url(), site.port, tmp_path, remote=remote)


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_call_sends_a_body_and_returns_the_answer(method: str) -> None:
    said = response_bytes("503 Later", "Content-Length: 5", body=b"later")
    async with web_server(always_respond(said)) as site:
        address = parse_web_address(site.url("/hook?key=1"), {site.port})
        client = CheckedClient(allowed=LOOPBACK)
        answer = await client.call(method, address, {"Content-Type": "text/plain"}, b"hello")
        assert answer == Answer(503, b"later")
        (request,) = site.requests
        assert (request.method, request.target, request.body) == (method, "/hook?key=1", b"hello")
        assert request.headers["content-type"] == "text/plain"
        with pytest.raises(FetchRefused, match="private network"):
            await CheckedClient().call(method, address, {}, b"hello")
        assert len(site.requests) == 1


async def test_of_a_long_answer_the_beginning_is_returned() -> None:
    whole = response_bytes("200 OK", body=b"a" * 8 * MiB)
    async with web_server(always_respond(whole)) as site:
        address = parse_web_address(site.url(), {site.port})
        answer = await CheckedClient(allowed=LOOPBACK).call("POST", address, {})
        assert answer == Answer(200, b"a" * (64 << 10))
        assert site.requests[0].headers["content-length"] == "0"


async def test_an_answer_that_does_not_end_is_given_up() -> None:
    async def drip(_: WebRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(response_bytes("200 OK"))
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with web_server(drip) as site:
        address = parse_web_address(site.url(), {site.port})
        with pytest.raises(FetchInterrupted, match="did not answer in time"):
            await CheckedClient(allowed=LOOPBACK, answer_seconds=0.2).call("POST", address, {})
