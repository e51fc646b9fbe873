"""Connections that come and go on real sockets: take-over, the drain, another certificate."""

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
    play,
    server_context,
)
from tests.support.waiting import until

# -- take-over ------------------------------------------------------------------------------------


@asynccontextmanager
async def ffmpeg(url: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Send the small file over and over by Debian's ffmpeg for the length of the block."""
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


def test_a_stopped_ffmpeg_is_taken_over_and_a_live_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        clock = asyncio.get_running_loop().time
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            url = f"rtmp://127.0.0.1:{inside.port('v4')}/live/{place.key.text}"
            async with ffmpeg(url) as first:
                await until(lambda: len(place.packets) > 20)
                first.send_signal(signal.SIGSTOP)
                stopped = clock()
                async with ffmpeg(url) as second:
                    await until(lambda: len(place.runs[0].begun) == 2)
                    assert clock() - stopped >= 1.5
                    await until(lambda: inside.counters.connections == 1)
                    async with ffmpeg(url) as third:
                        _, complaint = await third.communicate()
                        assert third.returncode != 0
                    assert b"another encoder is sending with this key" in complaint
                    heard = len(place.packets)
                    await until(lambda: len(place.packets) > heard + 10)
                    assert second.returncode is None
                    assert inside.counters.publishers == 1
                    assert len(place.runs) == 1
        assert caplog.text.count("takes over") == 1

    caplog.set_level(logging.INFO)
    play(story())


# -- the end --------------------------------------------------------------------------------------


def test_the_drain_tells_everybody_and_waits_for_nobody(
    loop: str, certificates: CertificateFiles
) -> None:
    async def story() -> None:
        clock = asyncio.get_running_loop().time
        place = LoopbackPorts()
        async with contextlib.AsyncExitStack() as stack:
            inside = await stack.enter_async_context(
                loopback_listener(place, tls=server_context(certificates))
            )
            publisher = await inside.publishing(place)
            idle = await inside.dial()
            await idle.send(rtmp_peer.HANDSHAKE)
            half_open = await inside.dial("tls")
            place.answering.clear()
            asking = await inside.dial()
            await asking.send(place.opening())
            await until(lambda: len(place.asked) == 2)
            await until(lambda: inside.counters.connections == 4)
            place.answering.set()
            port = inside.port("v4")
            began = clock()
            await stack.aclose()
            # None of them has closed its end.
            assert clock() - began < 1.0
            assert inside.counters.connections == inside.counters.publishers == 0
            assert await publisher.status(2) == STOPPED
            assert last_description(publisher.read) == "the service is stopping"
            assert place.runs[0].finished == 1
            assert not place.runs[0].ended
            for wire in (publisher, idle, half_open, asking):
                await wire.closed()
                await wire.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    play(story(), loop)


@pytest.mark.parametrize("drain_seconds", [0.0, 1.0])
def test_the_drain_is_bounded_where_a_look_up_hangs_and_a_peer_is_deaf(
    drain_seconds: float, loop: str
) -> None:
    async def story() -> None:
        clock = asyncio.get_running_loop().time
        place = LoopbackPorts()
        async with contextlib.AsyncExitStack() as stack:
            inside = await stack.enter_async_context(
                loopback_listener(place, drain_seconds=drain_seconds)
            )
            place.answering.clear()
            wire = await inside.dial()
            await wire.send(place.opening())
            sock = await stack.enter_async_context(inside.unread_socket())
            await asyncio.get_running_loop().sock_sendall(sock, rtmp_peer.HANDSHAKE)
            await until(lambda: len(place.asked) == 1)  # the deaf one is just being let in
            began = clock()
            await stack.aclose()
            assert drain_seconds <= clock() - began < drain_seconds + 0.9
            await wire.closed()
            await wire.close()

    play(story(), loop)


# -- certificates ---------------------------------------------------------------------------------


def test_new_connections_see_the_new_certificate_and_old_ones_go_on(
    tmp_path: Path, loop: str
) -> None:
    async def story() -> None:
        now = datetime.datetime.now(datetime.UTC)
        files = ensure_local_certificates(tmp_path, ["localhost"], now)
        context = server_context(files)
        place = LoopbackPorts()
        async with loopback_listener(place, tls=context) as inside:
            old = await inside.dial("tls", client_context(files))
            await old.send(place.opening())
            assert await old.status() == START
            ensure_local_certificates(tmp_path, ["localhost", "127.0.0.1"], now)
            load(context, files.leaf, files.leaf_key)
            new = await inside.dial("tls", client_context(files))
            assert new.shown != old.shown
            await old.send(rtmp_peer.MEDIA)
            await until(lambda: len(place.packets) == 3)
            for wire in (old, new):
                await wire.close()

    play(story(), loop)
