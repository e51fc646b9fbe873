"""Connections over time on real sockets: takeovers, the drain, a new certificate."""

import asyncio
import contextlib
import datetime
import logging
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headend.install.certificates import CertificateFiles, ensure_local_certificates, load
from tests.ingest.rtmp.test_session_captures import CAPTURES
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    START,
    STOPPED,
    LoopbackPorts,
    client_context,
    last_description,
    loopback_listener,
    real_time,
    server_context,
)
from tests.support.waiting import until

# -- take-over ------------------------------------------------------------------------------------


@asynccontextmanager
async def ffmpeg(url: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Send a small file repeatedly with Debian's ffmpeg for the length of the block."""
    program = shutil.which("ffmpeg")
    assert program is not None, "ffmpeg is missing: apt-get install ffmpeg"
    process = await asyncio.create_subprocess_exec(
        program, "-v", "error", "-nostdin", "-re", "-stream_loop", "-1",
        "-i", str(CAPTURES / "source.flv"), "-c", "copy", "-f", "flv", url,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@real_time
async def test_a_stopped_ffmpeg_is_taken_over_and_a_live_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        url = f"rtmp://127.0.0.1:{listener.port('v4')}/live/{ports.key.text}"
        async with ffmpeg(url) as first:
            await until(lambda: len(ports.packets) > 20)
            first.send_signal(signal.SIGSTOP)
            stopped = clock()
            async with ffmpeg(url) as second:
                await until(lambda: ports.runs[0].calls == ["begin", "slate", "begin"])
                assert clock() - stopped >= 1.5
                await until(lambda: listener.counters.connections == 1)
                async with ffmpeg(url) as third:
                    _, complaint = await third.communicate()
                    assert third.returncode != 0
                assert b"another encoder is sending with this key" in complaint
                received = len(ports.packets)
                await until(lambda: len(ports.packets) > received + 10)
                assert second.returncode is None
                assert listener.counters.publishers == 1
                assert len(ports.runs) == 1
    assert caplog.text.count("encoder taken over") == 1


# -- the end --------------------------------------------------------------------------------------


@real_time
async def test_the_drain_notifies_all_peers_and_does_not_wait_for_them(
    loop: str, certificates: CertificateFiles
) -> None:
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with contextlib.AsyncExitStack() as stack:
        listener = await stack.enter_async_context(
            loopback_listener(ports, tls=server_context(certificates))
        )
        publisher = await listener.publishing(ports)
        idle = await listener.dial()
        await idle.send(rtmp_peer.HANDSHAKE)
        half_open = await listener.dial("tls")
        ports.answering.clear()
        asking = await listener.dial()
        await asking.send(ports.opening())
        await until(lambda: len(ports.asked) == 2)
        await until(lambda: listener.counters.connections == 4)
        ports.answering.set()
        port = listener.port("v4")
        began = clock()
        await stack.aclose()
        # None of them has closed its end.
        assert clock() - began < 1.0
        assert listener.counters.connections == listener.counters.publishers == 0
        assert await publisher.status(2) == STOPPED
        assert last_description(publisher.read) == "the service is stopping"
        assert ports.runs[0].calls == ["begin", "finish"]
        for wire in (publisher, idle, half_open, asking):
            await wire.closed()
            await wire.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("drain_seconds", [0.0, 1.0])
@real_time
async def test_the_drain_is_bounded_where_a_look_up_hangs_and_a_peer_is_deaf(
    drain_seconds: float, loop: str
) -> None:
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with contextlib.AsyncExitStack() as stack:
        listener = await stack.enter_async_context(
            loopback_listener(ports, drain_seconds=drain_seconds)
        )
        ports.answering.clear()
        wire = await listener.dial()
        await wire.send(ports.opening())
        sock = await stack.enter_async_context(listener.unread_socket())
        await asyncio.get_running_loop().sock_sendall(sock, rtmp_peer.HANDSHAKE)
        await until(lambda: len(ports.asked) == 1)  # the deaf peer's key is being looked up
        began = clock()
        await stack.aclose()
        assert drain_seconds <= clock() - began < drain_seconds + 0.9
        await wire.closed()
        await wire.close()


# -- certificates ---------------------------------------------------------------------------------


@real_time
async def test_new_connections_see_the_new_certificate_and_old_ones_go_on(
    tmp_path: Path, loop: str
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    files = ensure_local_certificates(tmp_path, ["localhost"], now)
    context = server_context(files)
    ports = LoopbackPorts()
    async with loopback_listener(ports, tls=context) as listener:
        old = await listener.dial("tls", client_context(files))
        await old.send(ports.opening())
        assert await old.status() == START
        ensure_local_certificates(tmp_path, ["localhost", "127.0.0.1"], now)
        load(context, files.leaf, files.leaf_key)
        new = await listener.dial("tls", client_context(files))
        assert new.shown != old.shown
        await old.send(rtmp_peer.MEDIA)
        await until(lambda: len(ports.packets) == 3)
        for wire in (old, new):
            await wire.close()
