"""Redis over TLS: a real server with a certificate, and whom its clients take for it."""

import asyncio
import datetime
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery.edge.redis import EdgeUnavailable, EdgeWrite, WriteOutcome, open_edge_store
from headend.install.certificates import CertificateFiles, ensure_local_certificates
from storage.bus.base import BusMessage, BusUnavailable
from storage.bus.redis import open_redis_bus
from tests.support.redis_server import RedisServer, redis_server

HASH = "abcdefABCDEF"
WHOLE = EdgeWrite(stream=HASH, generation=1, revision=7, whole=b"whole")


def certificates_for(folder: Path, name: str) -> CertificateFiles:
    """Make an authority, and a certificate for one name."""
    return ensure_local_certificates(folder, {name}, datetime.datetime.now(datetime.UTC))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder = tmp_path_factory.mktemp("redis")
    certificates = certificates_for(folder / "tls", "127.0.0.1")
    with redis_server(folder, certificates=certificates) as running:
        yield running


async def test_notices_and_the_edge_pass_over_tls(server: RedisServer) -> None:
    assert server.url.startswith("rediss://")
    async with open_redis_bus(server.url) as bus, bus.subscribe("stream.a") as box:
        assert bus.is_connected
        await bus.publish("stream.a", b"x")
        async with asyncio.timeout(10):
            assert await box.get() == BusMessage("stream.a", b"x")
    async with open_edge_store(server.url, namespace="one") as store:
        assert await store.write([WHOLE]) == [WriteOutcome.DONE]
        assert await store.read_state(HASH) == [b"whole"]


async def refused(url: str) -> None:
    """Assert that nothing is sent to the server of this address."""
    async with open_redis_bus(url) as bus:
        assert not bus.is_connected
        with pytest.raises(BusUnavailable):
            await bus.publish("stream.a", b"x")
    async with open_edge_store(url, namespace="one") as store:
        with pytest.raises(EdgeUnavailable):
            await store.write([WHOLE])


async def test_a_server_of_another_authority_is_refused(
    server: RedisServer, tmp_path: Path
) -> None:
    other = certificates_for(tmp_path / "other", "127.0.0.1").authority
    address = f"{server.address}:{server.port}/0"
    await refused(f"rediss://{address}?ssl_ca_certs={other}")
    await refused(f"rediss://{address}")  # the system's authorities do not know it either
    await refused(f"rediss://{address}?ssl_ca_certs={tmp_path / 'none.pem'}")


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    certificates = certificates_for(tmp_path / "tls", "redis.example.org")
    with redis_server(tmp_path, address="127.0.0.3", certificates=certificates) as server:
        await refused(server.url)
        # The name is all that is wrong with it.
        async with open_redis_bus(f"{server.url}&ssl_check_hostname=False") as bus:
            assert bus.is_connected


async def test_the_port_of_tls_speaks_nothing_else(server: RedisServer) -> None:
    await refused(f"redis://{server.address}:{server.port}/0")


@pytest.fixture
def client(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and a key of a client; it is its own authority."""
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=client",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


async def test_a_server_that_wants_certificates_gets_them(
    tmp_path: Path, client: tuple[Path, Path]
) -> None:
    certificate, key = client
    with redis_server(tmp_path, certificates=certificates_for(tmp_path, "127.0.0.1")) as server:
        server.command("CONFIG", "SET", "tls-ca-cert-file", str(certificate))
        server.command("CONFIG", "SET", "tls-auth-clients", "yes")
        await refused(server.url)
        own = f"&ssl_certfile={certificate}&ssl_keyfile={key}"
        async with open_redis_bus(server.url + own) as bus:
            assert bus.is_connected
