"""Measures how long the event loop of this process is held up, and reports it.

The measurement is used to judge encoders and engines fairly (see `media.loop_lag`).
"""

import asyncio
import logging
from typing import Final

from media.loop_lag import BEAT_SECONDS, LoopLag

log = logging.getLogger(__name__)

# Half of the shortest detection of a silent encoder.
LOGGED_SECONDS: Final = 0.5


async def watch_loop(lag: LoopLag) -> None:
    """Measure the lag of the running loop and log long ones, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        held_up = lag.beat(clock())
        if held_up >= LOGGED_SECONDS:
            log.warning("event loop held up", extra={"seconds": round(held_up, 2)})
        await asyncio.sleep(BEAT_SECONDS)
