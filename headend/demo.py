"""The demo: two encoders send a test picture to a stream, and one of them is killed repeatedly.

Viewers of the stream's page see uninterrupted video; the terminal prints a line for each event. The
encoders are separate processes, like real ones. Times are seconds.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from headend.roles.wiring import RunningService
from headend.supervision import BackgroundTask, run_in_background
from media.stream_keys import PublicHash, Slot
from storage.catalog import Catalog
from storage.catalog.records.common import EventRecord

_AWAY_SECONDS: Final = 3.0  # before a dead encoder is restarted
_HEAD_START: Final = 3.0  # so that the primary begins the run
_POLL_SECONDS: Final = 0.25  # between two queries of the stream's events
_STOP_SECONDS: Final = 5.0  # for an encoder to end properly
_SIZE: Final = (1280, 720)
_FPS: Final = 30

PrintLine = Callable[[str], None]


class DemoError(Exception):
    """The demo cannot run; the message is for the operator."""


@asynccontextmanager
async def run_demo(
    running: RunningService, every: float, print_line: PrintLine
) -> AsyncGenerator[None, None]:
    """Send to the primary and backup of the first stream for the length of the block.

    The primary is killed every `every` seconds, or never if that is 0. `print_line` receives a line
    for each event.

    Raises:
        DemoError: the stream that the first start created is gone, or RTMP is not served.
    """
    if not running.rtmp_port:
        raise DemoError("the demo needs RTMP: set rtmp.listen")
    stream, catalog = running.first.stream, running.catalog
    if stream is None or catalog is None:
        raise DemoError("the demo needs the stream of the first start, and it is gone")

    def url(slot: Slot) -> str:
        return f"rtmp://localhost:{running.rtmp_port}/{slot.application}/{stream.key.text}"

    events = _StreamEvents(catalog, running.first.project.id, stream.hash)
    async with run_in_background(
        BackgroundTask("primary", partial(_run_primary, url(Slot(0)), every, print_line)),
        BackgroundTask("backup", partial(_run_backup, url(Slot(1)), print_line)),
        BackgroundTask("events", partial(_print_events, events, await events.newest(), print_line)),
    ):
        yield


async def _run_primary(url: str, every: float, print_line: PrintLine) -> None:
    """Send to the primary; kill the encoder every `every` seconds and restart it."""
    lifetime = every or None
    while True:
        async with _encoder(url) as child:
            try:
                async with asyncio.timeout(lifetime):
                    await child.wait()
                print_line("the primary's encoder has ended")
            except TimeoutError:
                child.kill()
                print_line("the primary's encoder is killed")
        await asyncio.sleep(_AWAY_SECONDS)
        lifetime = max(every - _AWAY_SECONDS, 1.0) if every else None
        print_line("the primary's encoder is started again")


async def _run_backup(url: str, print_line: PrintLine) -> None:
    """Send to the backup."""
    await asyncio.sleep(_HEAD_START)
    while True:
        async with _encoder(url) as child:
            await child.wait()
        print_line("the backup's encoder has ended")
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
            # The URL holds the stream key, and the arguments of a process are public.
            child.stdin.write(json.dumps(order).encode() + b"\n")
            await child.stdin.drain()
        yield child
    finally:
        await _stop(child)


async def _stop(child: asyncio.subprocess.Process) -> None:
    """Terminate an encoder, and kill it if it does not end properly in time."""
    if child.returncode is None:
        child.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


class _StreamEvents:
    """The events of a stream, as its owner sees them."""

    def __init__(self, catalog: Catalog, project: int, hash_: PublicHash) -> None:
        self._catalog, self._project, self._hash = catalog, project, hash_

    async def newest(self) -> int:
        """Return the id of the newest event, or 0."""
        return max((event.id for event in await self._page()), default=0)

    async def after(self, last: int) -> list[EventRecord]:
        """Return the events after `last`, oldest first, but at most the newest ten."""
        return [event for event in reversed(await self._page()) if event.id > last]

    async def _page(self) -> tuple[EventRecord, ...]:
        page = await self._catalog.events.find_page(self._project, subject=self._hash)
        return tuple(page.items)


async def _print_events(events: _StreamEvents, last: int, print_line: PrintLine) -> None:
    """Print the events of the stream, beginning after the event `last`."""
    while True:
        for event in await events.after(last):
            last = event.id
            if text := sentence(event.kind, event.facts):
                print_line(text)
        await asyncio.sleep(_POLL_SECONDS)


def sentence(kind: str, facts: dict[str, object]) -> str | None:
    """Return what an event means for viewers, or None if it has no effect on them."""
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
        case "refused":
            return f"{facts.get('slot')} is refused: {facts.get('reason')}"
        case "off air":
            return "off air"
        case _:
            return None


def _gap(gap_ms: object) -> str:
    if not isinstance(gap_ms, int | float) or not gap_ms:
        return "nothing lost"
    return f"{abs(gap_ms):.0f} ms {'lost' if gap_ms > 0 else 'shown twice'}"


def stamped(text: str) -> str:
    """Prefix a line with the time of day (UTC), as shown in the test picture."""
    return f"{datetime.now(UTC):%H:%M:%S}  {text}"
