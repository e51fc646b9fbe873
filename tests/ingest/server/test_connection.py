"""Encoders on real sockets: their commands, the answers, and the packets that reach the sink."""

import asyncio
import logging
import shutil
import sys

import pytest

from headend.install.certificates import CertificateFiles
from ingest.stream.ports import PortError, StreamEnded
from media.packet import MediaPacket
from media.track import VideoTrack
from tests.ingest.rtmp.test_session_captures import CAPTURES, expected, flv
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    BAD_NAME,
    HASH,
    START,
    LoopbackPorts,
    client_context,
    full_log,
    last_description,
    lines,
    loopback_listener,
    play,
    real_time,
    server_context,
)
from tests.support.ingest.virtual_clock import play_fast, virtual_sockets
from tests.support.waiting import until

WRONG_SECRET = "01234567-89ab-cdef-0123-456789abcdef"
SMALL_STEPS = 4096  # bytes that are written one by one


# -- whole streams --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ffmpeg", "v4"),
        ("ffmpeg_extended", "tls"),
        ("rtmp2sink", "v6"),
        ("librtmp", "mapped"),
        ("obs", "tls"),
    ],
)
@real_time
async def test_a_capture_reaches_the_sink_whole(
    name: str, address: str, loop: str, certificates: CertificateFiles
) -> None:
    data, asked, events = expected(name)
    assert asked < SMALL_STEPS < len(data)
    ports = LoopbackPorts()
    ports.open_to_all = True
    async with loopback_listener(ports, tls=server_context(certificates)) as listener:
        wire = await listener.dial(
            address, client_context(certificates) if address == "tls" else None
        )
        for at in range(SMALL_STEPS):
            if at == asked:
                await wire.status()
            await wire.send(data[at : at + 1])
            await asyncio.sleep(0)
        assert await wire.status() == START
        await wire.send(data[SMALL_STEPS:])
        await until(lambda: bool(ports.runs) and ports.runs[0].calls == ["begin", "slate"])
        await wire.close()
    assert ports.packets == [event for event in events if isinstance(event, MediaPacket)]
    assert len(ports.runs) == 1


def bodies(packets: list[MediaPacket], *, video: bool) -> list[bytes]:
    return [packet.data for packet in packets if isinstance(packet.track, VideoTrack) == video]


def of_file(*, video: bool) -> list[bytes]:
    kind = "video" if video else "audio"
    return [data for what, _, _, data in flv("source.flv") if what == kind]


def test_ffmpegs_library_publishes_whole(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        ports = LoopbackPorts()
        async with loopback_listener(ports) as listener:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.support.ingest.ffmpeg_muxer",
                str(CAPTURES / "source.flv"),
                f"rtmp://127.0.0.1:{listener.port('v4')}/live/{ports.key.text}",
            )  # fmt: skip
            assert await process.wait() == 0
            await until(lambda: bool(ports.runs) and ports.runs[0].calls == ["begin", "slate"])
        assert bodies(ports.packets, video=True) == of_file(video=True)
        assert bodies(ports.packets, video=False) == of_file(video=False)

    play(scenario(), loop)
    (dialogue,) = [vars(record) for record in caplog.records if record.msg == "dialogue"]
    assert "Lavf" in dialogue["agent"]


@real_time
async def test_debians_ffmpeg_publishes_whole_over_tls(
    certificates: CertificateFiles, loop: str
) -> None:
    ffmpeg = shutil.which("ffmpeg")
    assert ffmpeg is not None, "ffmpeg is missing: apt-get install ffmpeg"
    ports = LoopbackPorts()
    async with loopback_listener(ports, tls=server_context(certificates)) as listener:
        process = await asyncio.create_subprocess_exec(
            ffmpeg, "-v", "error", "-nostdin", "-readrate", "4",
            "-i", str(CAPTURES / "source.flv"), "-c", "copy", "-f", "flv",
            "-tls_verify", "1", "-ca_file", str(certificates.authority),
            f"rtmps://localhost:{listener.port('tls')}/live/{ports.key.text}",
        )  # fmt: skip
        assert await process.wait() == 0
        await until(lambda: bool(ports.runs) and ports.runs[0].calls == ["begin", "slate"])
    assert bodies(ports.packets, video=True) == of_file(video=True)
    assert bodies(ports.packets, video=False) == of_file(video=False)


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("application", "name"),
    [
        pytest.param("live", f"Ab3dEf6hIj9l_{WRONG_SECRET}", id="wrong key"),
        pytest.param("live", f"zzzzzzzzzzzz_{WRONG_SECRET}", id="unknown stream"),
        pytest.param("live", "no-key-at-all", id="no key's form"),
        pytest.param("life", None, id="foreign application"),
    ],
)
@real_time
async def test_a_refusal_is_read_whole_before_the_close(
    application: str, name: str | None, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.dial()
        await wire.send(ports.opening(application, name) + rtmp_peer.MEDIA)
        await wire.read_to_end()
        assert rtmp_peer.statuses(wire.read) == [BAD_NAME]
        assert last_description(wire.read) == "no stream has this key"
        assert len(ports.asked) == ports.answered == 1
        await wire.close()
        again = await listener.publishing(ports)
        await again.close()
        assert listener.counters.refused == {"wrong key": 1}
    assert lines(caplog.records, wire.name) == ["refused"]
    logged = full_log(caplog.records)
    for secret in (WRONG_SECRET, ports.key.secret, "no-key-at-all"):
        assert secret not in logged


@real_time
async def test_a_refusal_names_the_message_stream_that_was_asked_for() -> None:
    async with loopback_listener(LoopbackPorts()) as listener:
        wire = await listener.dial()
        await wire.send(
            rtmp_peer.HANDSHAKE
            + rtmp_peer.connect()
            + rtmp_peer.command("createStream", 2.0, None)
            + rtmp_peer.command("createStream", 3.0, None)
            + rtmp_peer.publish(f"Ab3dEf6hIj9l_{WRONG_SECRET}", stream=2)
        )
        await wire.read_to_end()
        assert rtmp_peer.statuses(wire.read) == [(2, *BAD_NAME[1:])]
        await wire.close()


@real_time
async def test_a_refusal_reaches_an_encoder_that_goes_on_sending(loop: str) -> None:
    async with loopback_listener(LoopbackPorts()) as listener:
        wire = await listener.dial()
        await wire.send(rtmp_peer.opening(name=f"Ab3dEf6hIj9l_{WRONG_SECRET}"))
        async with asyncio.TaskGroup() as tasks:

            async def send() -> None:
                while True:
                    await wire.send(rtmp_peer.video(rtmp_peer.video_body(bytes(9000)), 40))
                    await asyncio.sleep(0.005)

            sending = tasks.create_task(send())
            assert await wire.status() == BAD_NAME
            sending.cancel()
        await wire.close()


@real_time
async def test_a_backup_application_has_its_own_slot() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        primary = await listener.publishing(ports)
        backup = await listener.dial()
        await backup.send(ports.opening("live-backup-1"))
        assert await backup.status() == START
        await backup.send(rtmp_peer.MEDIA)
        await until(lambda: len(ports.states[-1].sending) == 2)
        assert len(ports.runs) == 1
        await backup.close()
        await primary.close()


@pytest.mark.parametrize("failure", [PortError("busy"), RuntimeError("a bug"), None])
def test_a_look_up_that_fails_or_hangs_refuses_one_encoder(
    failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        ports = LoopbackPorts()
        async with loopback_listener(ports) as listener:
            steady = await listener.publishing(ports)
            ports.failure = failure
            if failure is None:
                ports.answering.clear()
            began = clock()
            wire = await listener.dial()
            await wire.send(ports.opening())
            await wire.read_to_end()
            assert clock() - began == pytest.approx(0.2 if failure else 5.2, abs=0.5)
            assert rtmp_peer.statuses(wire.read) == ([] if "bug" in str(failure) else [BAD_NAME])
            await wire.close()
            await steady.send(rtmp_peer.MEDIA)
            await until(lambda: len(ports.packets) == 6)
            await steady.close()
            await until(lambda: listener.counters.connections == 0)
            ports.failure = None
            ports.answering.set()
            await (await listener.publishing(ports)).close()

    play_fast(scenario())
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


@virtual_sockets
async def test_an_encoder_of_an_ended_stream_is_refused_with_words() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        ports.failure = StreamEnded(HASH, 61.2)
        wire = await listener.dial()
        await wire.send(ports.opening())
        assert await wire.status() == BAD_NAME
        assert last_description(wire.read) == (
            "the stream was ended by its owner: stop this encoder, and start it again after"
            " 62 s, or at once if the owner presses 'Go live again'"
        )
        await wire.read_to_end()
        await wire.close()
        assert listener.counters.refused == {"ended": 1}


@virtual_sockets
async def test_an_encoder_that_was_looked_up_before_an_end_does_not_go_live_after_it() -> None:
    """It waits for its slot, whose encoder still seems alive and is disconnected by the end."""

    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        first = await listener.publishing(ports)
        await first.send(rtmp_peer.MEDIA)
        await until(lambda: len(ports.packets) == 3)
        second = await listener.dial()
        await second.send(ports.opening())
        await until(lambda: ports.answered == 2)
        ports.failure = StreamEnded(HASH, 60)
        assert await listener.listener.streams.end(1, "the stream was ended by its owner")
        assert await second.status() == BAD_NAME
        await second.read_to_end()
        await second.close()
        await first.close()
        await until(lambda: listener.counters.connections == 0)
        assert len(ports.runs) == 1


# -- coming and going -----------------------------------------------------------------------------


@real_time
async def test_an_encoder_that_vanishes_during_the_look_up_leaves_nothing(loop: str) -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        ports.answering.clear()
        wire = await listener.dial()
        await wire.send(ports.opening())
        await until(lambda: len(ports.asked) == 1)
        wire.reset()
        await until(lambda: listener.counters.connections == 0)
        ports.answering.set()
        await until(lambda: ports.answered == 1)
        await (await listener.publishing(ports)).close()
        assert len(ports.runs) == 1


@real_time
async def test_a_goodbye_before_the_answer_leaves_the_slot_free() -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        ports.answering.clear()
        wire = await listener.dial()
        await wire.send(ports.opening() + rtmp_peer.GOODBYE)
        await until(lambda: len(ports.asked) == 1)
        ports.answering.set()
        await until(lambda: ports.answered == 1)
        other = await listener.publishing(ports)
        assert listener.counters.publishers == 1
        assert rtmp_peer.statuses(wire.read) == []
        # The first may still publish on its connection once the other has gone.
        await other.close()
        await until(lambda: listener.counters.publishers == 0)
        await wire.send(rtmp_peer.publish(ports.key.text))
        assert await wire.status() == START
        await wire.close()


@pytest.mark.parametrize(("goodbye", "runs"), [(60.0, 1), (0.0, 2)])
@virtual_sockets
async def test_an_encoder_stops_and_starts_again_on_its_connection(
    goodbye: float, runs: int
) -> None:
    ports = LoopbackPorts(goodbye=goodbye)
    async with loopback_listener(ports) as listener:
        wire = await listener.publishing(ports)
        stop = rtmp_peer.GOODBYE + rtmp_peer.command("deleteStream", 7.0, None, 1.0)
        await wire.send(stop)
        await until(lambda: listener.counters.publishers == 0)
        await until(lambda: ("end" in ports.runs[0].calls) == (runs == 2))
        await wire.send(
            rtmp_peer.command("createStream", 8.0, None)
            + rtmp_peer.publish(ports.key.text, 9.0)
            + rtmp_peer.MEDIA
        )
        assert await wire.status(2) == START
        await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
        await until(lambda: ports.packets[-1:] != [] and ports.packets[-1].data == b"more")
        assert len(ports.runs) == runs
        assert listener.counters.publishers == 1
        await wire.close()


@real_time
async def test_a_sink_that_breaks_costs_one_connection(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    ports = LoopbackPorts()
    async with loopback_listener(ports) as listener:
        wire = await listener.publishing(ports)
        ports.sink_breaks = True
        await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
        await wire.read_to_end()
        assert lines(caplog.records, wire.name, logging.ERROR) == [
            "connection failed",
            "traceback",
        ]
        ports.sink_breaks = False
        await (await listener.publishing(ports)).close()
        await wire.close()
