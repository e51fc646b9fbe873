"""The demo: two encoders send the test picture to a stream, and one is killed again and again.

Whoever watches the stream's page sees the picture go on; the terminal says in one line each what
happens. The encoders are processes of their own, as real ones are. Times are seconds.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from headend.roles.background import while_running
from headend.roles.wiring import Service
from media.stream_keys import PublicHash, Slot
from storage.catalog import Catalog
from storage.catalog.records.common import EventRecord

__all__ = ["EVERY_SECONDS", "DemoError", "demonstrating", "sentence", "stamped"]

# Back after 3 s, on air again when it was well for 10 s: then there is time to see it on air.
EVERY_SECONDS: Final = 20.0
_AWAY_SECONDS: Final = 3.0  # a dead encoder is started again after so long
_HEAD_START: Final = 3.0  # the primary begins the run, and a newcomer's first picture comes soon
_LOOK_SECONDS: Final = 0.25  # between two looks at the stream's events
_STOP_SECONDS: Final = 5.0  # an encoder has so long to say goodbye
_SIZE: Final = (1280, 720)
_FPS: Final = 30

Tell = Callable[[str], None]


class DemoError(Exception):
    """The demo cannot be shown; the text is the sentence for its operator."""


@asynccontextmanager
async def demonstrating(running: Service, every: float, tell: Tell) -> AsyncGenerator[None, None]:
    """Send to the first stream's primary and backup for the length of the block.

    The primary is killed each `every` seconds, never where that is 0; `tell` is given a line for
    each thing that happens.

    Raises:
        DemoError: the stream that the first start made is gone.
    """
    stream, catalog = running.first.stream, running.catalog
    if stream is None or catalog is None:
        raise DemoError("the demo needs the stream of the first start, and it is gone")

    def url(slot: Slot) -> str:
        return f"rtmp://localhost:{running.rtmp_port}/{slot.application}/{stream.key.text}"

    chronicle = _Chronicle(catalog, running.first.project.id, stream.hash)
    async with while_running(
        _fail_again_and_again(url(Slot(0)), every, tell),
        _stand_by(url(Slot(1)), tell),
        _tell_on(chronicle, await chronicle.newest(), tell),
    ):
        yield


async def _fail_again_and_again(url: str, every: float, tell: Tell) -> None:
    """Send to the primary; kill it each `every` seconds, and start it again."""
    lives = every or None
    while True:
        async with _encoder(url) as child:
            try:
                async with asyncio.timeout(lives):
                    await child.wait()
                tell("the primary's encoder has ended")
            except TimeoutError:
                child.kill()
                tell("the primary's encoder is killed")
        await asyncio.sleep(_AWAY_SECONDS)
        lives = max(every - _AWAY_SECONDS, 1.0) if every else None
        tell("the primary's encoder is started again")


async def _stand_by(url: str, tell: Tell) -> None:
    """Send to the backup."""
    await asyncio.sleep(_HEAD_START)
    while True:
        async with _encoder(url) as child:
            await child.wait()
        tell("the backup's encoder has ended")
        await asyncio.sleep(_AWAY_SECONDS)


@asynccontextmanager
async def _encoder(url: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Send the test picture for the length of the block."""
    order = {"url": url, "seconds": None, "size": _SIZE, "fps": _FPS}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "transcode.engine.testsource.pattern", stdin=asyncio.subprocess.PIPE
    )
    try:
        if child.stdin is not None:
            # The address holds the key, and a process's arguments are for all to see.
            child.stdin.write(json.dumps(order).encode() + b"\n")
            await child.stdin.drain()
        yield child
    finally:
        await _stopped(child)


async def _stopped(child: asyncio.subprocess.Process) -> None:
    """Have an encoder end, with a goodbye where it still can."""
    if child.returncode is None:
        child.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


class _Chronicle:
    """What happens to a stream, as its owner can read it."""

    def __init__(self, catalog: Catalog, project: int, hash_: PublicHash) -> None:
        self._catalog, self._project, self._hash = catalog, project, hash_

    async def newest(self) -> int:
        """Return the newest event's id, 0 where there is none."""
        return max((event.id for event in await self._page()), default=0)

    async def after(self, last: int) -> list[EventRecord]:
        """Return what is newer than an event, oldest first; of many only the newest ten."""
        return [event for event in reversed(await self._page()) if event.id > last]

    async def _page(self) -> tuple[EventRecord, ...]:
        page = await self._catalog.events.find_page(self._project, subject=self._hash)
        return tuple(page.items)


async def _tell_on(chronicle: _Chronicle, last: int, tell: Tell) -> None:
    """Tell what happens to the stream, from the event after `last` on."""
    while True:
        for event in await chronicle.after(last):
            last = event.id
            if text := sentence(event.kind, event.facts):
                tell(text)
        await asyncio.sleep(_LOOK_SECONDS)


def sentence(kind: str, facts: dict[str, object]) -> str | None:
    """Return what an event means for viewers, None where it means nothing to them."""
    match kind:
        case "live":
            return "viewers get the primary"
        case "switched":
            return (
                f"viewers get {facts.get('to')}: {facts.get('from')} {facts.get('reason')}, "
                f"{_gap(facts.get('gap_ms'))}"
            )
        case "slate":
            return "viewers get the slate"
        case "back on air":
            return f"viewers get {facts.get('slot')} again"
        case "off air":
            return "off air"
        case _:
            return None


def _gap(gap_ms: object) -> str:
    if not isinstance(gap_ms, int | float) or not gap_ms:
        return "nothing lost"
    return f"{abs(gap_ms):.0f} ms {'lost' if gap_ms > 0 else 'shown twice'}"


def stamped(text: str) -> str:
    """Return a line with the time of day (UTC) in front of it, as in the picture."""
    return f"{datetime.now(UTC):%H:%M:%S}  {text}"
