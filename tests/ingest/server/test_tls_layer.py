"""The TLS layer against OpenSSL: whole and in pieces, what breaks it, and both ends."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from headend.install.certificates import CertificateFiles
from ingest.server.tls_layer import TlsLayer
from tests.support.ingest.loopback import client_context, real_time, server_context
from tests.support.waiting import until

HANDSHAKE_SECONDS = 5.0
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
MANY = bytes(range(256)) * 1200  # records of every length that OpenSSL makes of it, and many reads

BAD_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(194)


class EchoingProtocol(asyncio.Protocol):
    """Writes back what it receives, and records it and the end."""

    def __init__(self) -> None:
        self.read = b""
        self.tls: TlsLayer | None = None
        self.ends: list[Exception | None] = []
        self.failures: list[OSError] = []

    def connection_made(
        self, transport: asyncio.BaseTransport, tls: TlsLayer | None = None
    ) -> None:
        self.tls = tls

    def data_received(self, data: bytes) -> None:
        assert self.tls is not None
        self.read += data
        self.tls.write(data)

    def read_failed(self, error: OSError) -> None:
        self.failures.append(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ends.append(exc)


class Peer:
    """The client's end: OpenSSL without a socket, whose ciphertext is sent in pieces."""

    def __init__(self, files: CertificateFiles, version: ssl.TLSVersion, step: int) -> None:
        self.protocol = EchoingProtocol()
        self.layer = TlsLayer(self.protocol, server_context(files))
        self._step = step
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(files)
        context.minimum_version = context.maximum_version = version
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        ours, self.sock = socket.socketpair()
        ours.setblocking(False)
        self.sock.setblocking(False)
        self._accepted = ours

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.layer, self._accepted)

    async def shake_hands(self) -> None:
        await self.connect()
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
                break
            await self.flush()
            await self.receive()
        await self.flush()
        await self.layer.handshake(HANDSHAKE_SECONDS)

    async def flush(self) -> None:
        data, loop = self._out.read(), asyncio.get_running_loop()
        for at in range(0, len(data), self._step):
            await loop.sock_sendall(self.sock, data[at : at + self._step])
            await asyncio.sleep(0)

    async def receive(self) -> bytes:
        """Read ciphertext once."""
        data = await asyncio.get_running_loop().sock_recv(self.sock, 65_536)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        return data

    async def read(self, size: int) -> bytes:
        """Decrypt so many bytes; fewer at the server's close_notify."""
        read = b""
        while len(read) < size:
            try:
                part = self.tls.read(size - len(read))
            except ssl.SSLWantReadError:
                await self.receive()
                continue
            if not part:
                break
            read += part
        return read


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("data", "step"), [(b"a few words", 1), (MANY, 100_000)])
@real_time
async def test_what_is_sent_and_answered_arrives_whole_until_the_close_notify(
    certificates: CertificateFiles, version: ssl.TLSVersion, data: bytes, step: int, loop: str
) -> None:
    peer = Peer(certificates, version, step)
    with peer.sock:
        await peer.shake_hands()
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(peer.read(len(data)))
            for at in range(0, len(data), step * 11):
                peer.tls.write(data[at : at + step * 11])
                await peer.flush()
        assert reading.result() == peer.protocol.read == data
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()
        await peer.flush()
        await until(lambda: peer.protocol.ends == [None])
        await peer.receive()
        peer.tls.unwrap()  # answered in kind
        assert await peer.receive() == b""


@real_time
async def test_the_end_of_the_connection_is_a_close_notify(
    certificates: CertificateFiles, loop: str
) -> None:
    peer = Peer(certificates, ssl.TLSVersion.TLSv1_3, 1000)
    with peer.sock:
        await peer.shake_hands()
        peer.layer.write(b"the last words")
        peer.layer.close()
        assert await peer.read(100) == b"the last words"
        assert await peer.receive() == b""
        await until(lambda: peer.protocol.ends == [None])
        peer.layer.write(b"nothing more")
        peer.layer.close()


@pytest.mark.parametrize("garbage", [b"", b"\x17\x03\x03\x00\x20" + bytes(32), b"GET / HTTP/1.1"])
@real_time
async def test_what_came_before_garbage_or_a_bare_end_is_passed_on(
    certificates: CertificateFiles, garbage: bytes, loop: str
) -> None:
    peer = Peer(certificates, ssl.TLSVersion.TLSv1_3, 100_000)
    with peer.sock:
        await peer.shake_hands()
        peer.tls.write(b"good")
        await peer.flush()
        peer.sock.send(garbage)
        peer.sock.shutdown(socket.SHUT_WR)
        await until(lambda: len(peer.protocol.ends) == 1)
        assert peer.protocol.read == b"good"
        assert isinstance(peer.protocol.ends[0], ssl.SSLError) == bool(garbage)


@pytest.mark.parametrize(
    ("sent", "error", "answer"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", ssl.SSLError, b"", id="another protocol"),
        pytest.param(BAD_HELLO, ssl.SSLError, b"\x15", id="a hello that is none"),
        pytest.param(b"\x16\x03\x01\x00\xc8\x01\x00", ConnectionResetError, b"", id="half a hello"),
        pytest.param(b"", ConnectionResetError, b"", id="nothing"),
    ],
)
@real_time
async def test_a_handshake_that_fails_tells_why(
    certificates: CertificateFiles, sent: bytes, error: type[OSError], answer: bytes, loop: str
) -> None:
    peer = Peer(certificates, ssl.TLSVersion.TLSv1_3, 1)
    with peer.sock:
        await peer.connect()
        peer.sock.send(sent)
        peer.sock.shutdown(socket.SHUT_WR)
        with pytest.raises(error, match=r"\w"):
            await peer.layer.handshake(HANDSHAKE_SECONDS)
        assert (await peer.receive())[:1] == answer
        assert peer.protocol.tls is None
        assert not peer.protocol.ends


@real_time
async def test_a_handshake_that_never_ends_is_dropped_after_its_time(
    certificates: CertificateFiles, loop: str
) -> None:
    peer = Peer(certificates, ssl.TLSVersion.TLSv1_3, 1)
    with peer.sock:
        await peer.connect()
        with pytest.raises(TimeoutError, match=r"not complete after 0\.05 s"):
            await peer.layer.handshake(0.05)
        assert await peer.receive() == b""


@pytest.mark.parametrize(
    ("version", "letter", "goes_on"),
    [
        pytest.param("-tls1_3", b"K\n", True, id="new keys in TLS 1.3"),
        pytest.param("-tls1_3", b"k\n", True, id="new keys of the client's"),
        pytest.param(
            "-tls1_2", b"R\n", False, id="renegotiation in TLS 1.2, which OpenSSL refuses"
        ),
    ],
)
@real_time
async def test_openssls_client_changes_its_keys_amid_its_data(
    certificates: CertificateFiles, version: str, letter: bytes, goes_on: bool, loop: str
) -> None:
    protocol = EchoingProtocol()
    layer = TlsLayer(protocol, server_context(certificates))
    running = asyncio.get_running_loop()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        port = listening.getsockname()[1]
        client = await asyncio.create_subprocess_exec(
            "openssl", "s_client", version, "-connect", f"localhost:{port}",
            "-CAfile", str(certificates.authority),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert client.stdin is not None
        assert client.stdout is not None
        accepted, _ = await running.sock_accept(listening)
        await running.connect_accepted_socket(lambda: layer, accepted)
        await layer.handshake(HANDSHAKE_SECONDS)
        client.stdin.write(b"before\n")
        await until(lambda: protocol.read == b"before\n")
        client.stdin.write(letter)
        await client.stdout.readuntil(b"KEYUPDATE" if goes_on else b"RENEGOTIATING")
        if goes_on:
            client.stdin.write(b"after\n")
            await until(lambda: protocol.read == b"before\nafter\n")
            await client.stdout.readuntil(b"after\n")
            client.stdin.close()
        await until(lambda: len(protocol.ends) == 1)
        client.stdin.close()
        await client.stdout.read()
        await client.wait()
