import asyncio
import gc
import os
import signal
from collections.abc import Callable

import pytest
import uvloop

from media.track import AudioCodec, AudioTrack
from tests.support.waiting import SCALE
from transcode.protocol.engine_process import EngineLost, spawn_engine
from transcode.protocol.messages import Begin, EngineReport, EpochFinished, Finish, Packet

AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"\x11\x90", rate=48_000, channels=2)
BEGIN = Begin(
    epoch=0,
    video=None,
    audio=AUDIO,
    ladder=None,
    start=900_000,
    sequence=0,
    inits={},
    discontinuity=False,
)
# An AAC frame of silence: a raw_data_block with an empty channel pair.
SILENCE = bytes.fromhex("211004608c1c")

pytestmark = pytest.mark.usefixtures("children_start")


async def test_an_engine_makes_what_it_is_given_and_leaves() -> None:
    async def scenario() -> tuple[list[EngineReport], int]:
        reports: list[EngineReport] = []
        async with spawn_engine("live", "test") as child:
            await child.send(BEGIN)
            for number in range(100):
                at = number * 1024 // 48
                await child.send(Packet(video=False, dts=at, pts=at, key=True, data=SILENCE))
            await child.send(Finish())
            child.close_input()
            reports = [report async for report in child.reports()]
            status = await child.wait()
        return reports, status

    reports, status = await scenario()
    assert status == 0
    assert any(isinstance(report, EpochFinished) for report in reports)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_orders_to_an_engine_that_died_say_that_it_is_lost(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """That holds whatever the pipe's state: event loops raise different errors."""

    async def scenario(pause: float) -> None:
        async with spawn_engine("live", "test") as child:
            await child.send(BEGIN)
            child.kill()
            await asyncio.sleep(pause)
            # A busy machine takes its time to end a killed process.
            with pytest.raises(EngineLost):
                async with asyncio.timeout(10 * SCALE):
                    while True:
                        await child.send(
                            Packet(video=False, dts=0, pts=0, key=True, data=bytes(999))
                        )
                        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        for pause in (0.0, 0.02, 0.3):
            runner.run(scenario(pause))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_engine_that_dies_with_unread_orders_leaves_no_error_behind(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    complaints: list[str] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: complaints.append(str(context))
        )
        async with spawn_engine("live", "test") as child:
            os.kill(child.pid, signal.SIGSTOP)
            # More than a pipe holds: the rest is still to be written when the engine is gone.
            await child.send(Packet(video=False, dts=0, pts=0, key=True, data=bytes(99_999)))
            child.kill()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
    gc.collect()
    assert complaints == []


async def test_an_engine_that_is_killed_is_distinguished_from_one_that_ended() -> None:
    async def scenario() -> int:
        async with spawn_engine("live", "test") as child:
            await child.send(BEGIN)
            child.kill()
            for _ in [report async for report in child.reports()]:
                pass
            status = await child.wait()
            with pytest.raises(EngineLost):
                for _ in range(100):
                    await child.send(Packet(video=False, dts=0, pts=0, key=True, data=bytes(65536)))
        return status

    assert await scenario() == -signal.SIGKILL


async def test_an_engine_is_gone_when_its_block_is_cancelled() -> None:
    async def scenario() -> int:
        began: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def block() -> None:
            async with spawn_engine("live", "test") as child:
                began.set_result(child.pid)
                await child.wait()

        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(block())
            pid = await began
            task.cancel()
        return pid

    pid = await scenario()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_nothing_of_our_environment_reaches_an_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADEND_TEST_SECRET", "s3cret")

    async def scenario() -> str:
        async with spawn_engine("live", "test") as child:
            await child.send(BEGIN)
            with open(f"/proc/{child.pid}/environ", "rb") as file:  # noqa: ASYNC230, PTH123 # /proc
                return file.read().decode()

    assert "s3cret" not in await scenario()


async def test_an_engine_that_complains_in_one_endless_line_is_no_danger() -> None:
    """A module of the standard library, which runs its argument, stands in for a broken engine."""
    complaint = (
        "import os, sys; print('x' * 10**6, file=sys.stderr);"
        "print('the end', file=sys.stderr, flush=True); os._exit(3)"
    )

    async def scenario() -> int:
        async with spawn_engine(complaint, "test", module="timeit") as child:
            return await child.wait()

    assert await scenario() == 3
