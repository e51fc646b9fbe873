"""Encoders are not blamed when the event loop itself is held up."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import pytest

from headend.roles.loop_watch import watch_loop
from headend.supervision import BackgroundTask, run_in_background
from media.loop_lag import LoopLag
from tests.ingest.server.test_listener_life import ffmpeg
from tests.support.ingest.loopback import (
    LIMITS,
    LoopbackListener,
    LoopbackPorts,
    loopback_listener,
    real_time,
)
from tests.support.waiting import until

# Longer than an encoder may be silent, for failover and for its connection.
_HELD_UP_SECONDS: Final = 2.5
_LIMITS: Final = msgspec.structs.replace(LIMITS, idle_media_seconds=2.0, silence_seconds=2.0)


@asynccontextmanager
async def watched(ports: LoopbackPorts) -> AsyncGenerator[LoopbackListener, None]:
    """Listen on a loop whose lag is measured."""
    lag = LoopLag()
    async with (
        run_in_background(BackgroundTask("loop", lambda: watch_loop(lag))),
        loopback_listener(ports, limits=_LIMITS, lag=lag) as listener,
    ):
        yield listener


@real_time
async def test_an_encoder_that_sends_stays_on_air_while_the_loop_is_held_up(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ports = LoopbackPorts()
    async with watched(ports) as inside:
        url = f"rtmp://127.0.0.1:{inside.port('v4')}/live/{ports.key.text}"
        async with ffmpeg(url):
            await until(lambda: len(ports.packets) > 20)
            time.sleep(_HELD_UP_SECONDS)  # noqa: ASYNC251  # what must not happen
            received = len(ports.packets)
            await until(lambda: len(ports.packets) > received + 50 * _HELD_UP_SECONDS)
            assert inside.counters.publishers == 1
            assert {event.kind for event in ports.recorded} == {"encoder on"}
            assert ports.runs[0].calls == ["begin"]
            assert "no slot on air" not in caplog.text


@real_time
async def test_an_encoder_that_falls_silent_meanwhile_is_noticed_after_the_lag(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = asyncio.get_running_loop().time
    ports = LoopbackPorts()
    async with watched(ports) as inside:
        wire = await inside.publishing(ports)
        time.sleep(_HELD_UP_SECONDS)  # noqa: ASYNC251  # what must not happen
        began = clock()
        await until(lambda: any(event.kind == "slate" for event in ports.recorded))
        assert clock() - began < 3.0  # it was silent for longer than 2 s
        await wire.close()
