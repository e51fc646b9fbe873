import asyncio
import time

import pytest

from headend.roles.loop_watch import watch_loop
from headend.supervision import BackgroundTask, run_in_background
from media.loop_lag import LoopLag
from tests.support.ingest.loopback import play


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loop_that_is_held_up_is_measured_and_logged(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    lag = LoopLag()

    async def scenario() -> None:
        async with run_in_background(BackgroundTask("loop", lambda: watch_loop(lag))):
            await asyncio.sleep(0.3)
            time.sleep(1.0)  # noqa: ASYNC251  # what must not happen
            await asyncio.sleep(0.3)

    play(scenario(), loop)
    assert lag.count >= 1
    assert lag.seconds >= 0.85
    lines = [record for record in caplog.records if record.msg == "event loop held up"]
    assert max(vars(line)["seconds"] for line in lines) >= 0.85  # a busy machine adds others
