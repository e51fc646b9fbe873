"""Encoders on real sockets: what they say, what they are told, and what reaches the sink."""

import asyncio
import logging
import shutil
import sys

import pytest

from headend.install.certificates import CertificateFiles
from ingest.rtmp.events import PacketReceived
from ingest.stream.ports import PortError
from media.packet import MediaPacket
from media.track import VideoTrack
from tests.ingest.rtmp.test_session_captures import CAPTURES, expected, flv
from tests.support.ingest import rtmp_peer
from tests.support.ingest.loopback import (
    BAD_NAME,
    START,
    LoopbackPorts,
    client_context,
    everything,
    last_description,
    lines,
    loopback_listener,
    play,
    play_fast,
    server_context,
)
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
def test_a_capture_reaches_the_sink_whole(
    name: str, address: str, loop: str, certificates: CertificateFiles
) -> None:
    data, asked, events = expected(name)

    async def story() -> None:
        place = LoopbackPorts()
        place.open_to_all = True
        async with loopback_listener(place, tls=server_context(certificates)) as inside:
            wire = await inside.dial(
                address, client_context(certificates) if address == "tls" else None
            )
            for at in range(SMALL_STEPS):
                if at == asked:
                    await wire.status()
                await wire.send(data[at : at + 1])
                await asyncio.sleep(0)
            assert await wire.status() == START
            await wire.send(data[SMALL_STEPS:])
            await until(lambda: bool(place.runs) and place.runs[0].finished == 1)
            await wire.close()
        assert place.packets == [
            event.packet for event in events if isinstance(event, PacketReceived)
        ]
        assert len(place.runs) == 1

    assert asked < SMALL_STEPS < len(data)
    play(story(), loop)


def bodies(packets: list[MediaPacket], *, video: bool) -> list[bytes]:
    return [packet.data for packet in packets if isinstance(packet.track, VideoTrack) == video]


def of_file(*, video: bool) -> list[bytes]:
    kind = "video" if video else "audio"
    return [data for what, _, _, data in flv("source.flv") if what == kind]


def test_ffmpegs_library_publishes_whole(loop: str) -> None:
    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.support.ingest.ffmpeg_muxer",
                str(CAPTURES / "source.flv"),
                f"rtmp://127.0.0.1:{inside.port('v4')}/live/{place.key.text}",
            )  # fmt: skip
            assert await process.wait() == 0
            await until(lambda: bool(place.runs) and place.runs[0].finished == 1)
        assert bodies(place.packets, video=True) == of_file(video=True)
        assert bodies(place.packets, video=False) == of_file(video=False)

    play(story(), loop)


def test_debians_ffmpeg_publishes_whole_over_tls(certificates: CertificateFiles, loop: str) -> None:
    ffmpeg = shutil.which("ffmpeg")
    assert ffmpeg is not None, "ffmpeg is missing: apt-get install ffmpeg"

    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place, tls=server_context(certificates)) as inside:
            process = await asyncio.create_subprocess_exec(
                ffmpeg, "-v", "error", "-nostdin", "-readrate", "4",
                "-i", str(CAPTURES / "source.flv"), "-c", "copy", "-f", "flv",
                "-tls_verify", "1", "-ca_file", str(certificates.authority),
                f"rtmps://localhost:{inside.port('tls')}/live/{place.key.text}",
            )  # fmt: skip
            assert await process.wait() == 0
            await until(lambda: bool(place.runs) and place.runs[0].finished == 1)
        assert bodies(place.packets, video=True) == of_file(video=True)
        assert bodies(place.packets, video=False) == of_file(video=False)

    play(story(), loop)


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
def test_a_refusal_is_read_whole_before_the_close(
    application: str, name: str | None, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            wire = await inside.dial()
            await wire.send(place.opening(application, name) + rtmp_peer.MEDIA)
            await wire.read_to_end()
            assert rtmp_peer.statuses(wire.read) == [BAD_NAME]
            assert last_description(wire.read) == "no stream has this key"
            assert len(place.asked) == place.answered == 1
            await wire.close()
            again = await inside.publishing(place)
            await again.close()
            assert inside.counters.refused == {"wrong key": 1}
        assert lines(caplog.records, wire.name) == ["refused"]
        said = everything(caplog.records)
        for secret in (WRONG_SECRET, place.key.secret, "no-key-at-all"):
            assert secret not in said

    play(story(), loop)


def test_a_refusal_names_the_message_stream_that_was_asked_for() -> None:
    async def story() -> None:
        async with loopback_listener(LoopbackPorts()) as inside:
            wire = await inside.dial()
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

    play(story())


def test_a_refusal_reaches_an_encoder_that_goes_on_sending(loop: str) -> None:
    async def story() -> None:
        async with loopback_listener(LoopbackPorts()) as inside:
            wire = await inside.dial()
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

    play(story(), loop)


def test_a_backup_application_has_a_seat_of_its_own() -> None:
    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            primary = await inside.publishing(place)
            backup = await inside.dial()
            await backup.send(place.opening("live-backup-1"))
            assert await backup.status() == START
            await backup.send(rtmp_peer.MEDIA)
            await until(lambda: len(place.states[-1].sending) == 2)
            assert len(place.runs) == 1
            await backup.close()
            await primary.close()

    play(story())


@pytest.mark.parametrize("failure", [PortError("busy"), RuntimeError("a bug"), None])
def test_a_look_up_that_fails_or_hangs_refuses_one_encoder(
    failure: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        clock = asyncio.get_running_loop().time
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            steady = await inside.publishing(place)
            place.failure = failure
            if failure is None:
                place.answering.clear()
            began = clock()
            wire = await inside.dial()
            await wire.send(place.opening())
            await wire.read_to_end()
            assert clock() - began == pytest.approx(0.2 if failure else 5.2, abs=0.5)
            assert rtmp_peer.statuses(wire.read) == ([] if "bug" in str(failure) else [BAD_NAME])
            await wire.close()
            await steady.send(rtmp_peer.MEDIA)
            await until(lambda: len(place.packets) == 6)
            await steady.close()
            await until(lambda: inside.counters.connections == 0)
            place.failure = None
            place.answering.set()
            await (await inside.publishing(place)).close()

    play_fast(story())
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


# -- coming and going -----------------------------------------------------------------------------


def test_an_encoder_that_vanishes_during_the_look_up_leaves_nothing(loop: str) -> None:
    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            place.answering.clear()
            wire = await inside.dial()
            await wire.send(place.opening())
            await until(lambda: len(place.asked) == 1)
            wire.reset()
            await until(lambda: inside.counters.connections == 0)
            place.answering.set()
            await until(lambda: place.answered == 1)
            await (await inside.publishing(place)).close()
            assert len(place.runs) == 1

    play(story(), loop)


def test_a_goodbye_before_the_answer_leaves_the_slot_free() -> None:
    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            place.answering.clear()
            wire = await inside.dial()
            await wire.send(place.opening() + rtmp_peer.GOODBYE)
            await until(lambda: len(place.asked) == 1)
            place.answering.set()
            await until(lambda: place.answered == 1)
            other = await inside.publishing(place)
            assert inside.counters.publishers == 1
            assert rtmp_peer.statuses(wire.read) == []
            # The first may still publish on its connection once the other has gone.
            await other.close()
            await until(lambda: inside.counters.publishers == 0)
            await wire.send(rtmp_peer.publish(place.key.text))
            assert await wire.status() == START
            await wire.close()

    play(story())


@pytest.mark.parametrize(("goodbye", "runs"), [(60.0, 1), (0.0, 2)])
def test_an_encoder_stops_and_starts_again_on_its_connection(goodbye: float, runs: int) -> None:
    async def story() -> None:
        place = LoopbackPorts(goodbye=goodbye)
        async with loopback_listener(place) as inside:
            wire = await inside.publishing(place)
            stop = rtmp_peer.GOODBYE + rtmp_peer.command("deleteStream", 7.0, None, 1.0)
            await wire.send(stop)
            await until(lambda: inside.counters.publishers == 0)
            await until(lambda: place.runs[0].ended == (runs == 2))
            await wire.send(
                rtmp_peer.command("createStream", 8.0, None)
                + rtmp_peer.publish(place.key.text, 9.0)
                + rtmp_peer.MEDIA
            )
            assert await wire.status(2) == START
            await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
            await until(lambda: place.packets[-1:] != [] and place.packets[-1].data == b"more")
            assert len(place.runs) == runs
            assert inside.counters.publishers == 1
            await wire.close()

    play_fast(story())


def test_a_sink_that_breaks_costs_one_connection(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        place = LoopbackPorts()
        async with loopback_listener(place) as inside:
            wire = await inside.publishing(place)
            place.sink_breaks = True
            await wire.send(rtmp_peer.audio(rtmp_peer.audio_body(b"more"), 46))
            await wire.read_to_end()
            assert lines(caplog.records, wire.name, logging.ERROR) == [
                "connection failed",
                "traceback",
            ]
            place.sink_breaks = False
            await (await inside.publishing(place)).close()
            await wire.close()

    play(story(), loop)
