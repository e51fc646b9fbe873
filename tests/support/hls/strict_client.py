"""A player that fetches all resources of a live stream, and feeds them to a `LiveChecker`.

It follows all renditions concurrently: playlists in its mode, and each init section, part, hinted
part and segment; sometimes delta updates, compressed playlists, invalid requests, and media that
were removed from the playlists.
"""

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx

from tests.support.hls.fetches import Fetch, joined
from tests.support.hls.live_checker import LiveChecker
from tests.support.hls.presentation_rules import CheckedRendition
from tests.support.hls.strict_m3u8 import MediaText
from tests.support.plain_http import PLAIN

Mode = Literal["low", "normal", "legacy"]
_LOW: Final[dict[Mode, bool | None]] = {"low": True, "normal": False, "legacy": None}
_VARIANTS_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 1.0  # of a player without blocking reload
_AWAY_SECONDS: Final = 0.3
_PROBES: Final = 12  # playlists between two rounds of unusual requests


async def follow(url: str, seconds: float, *, mode: Mode = "low") -> LiveChecker:
    """Follow a stream for some seconds, and return the checker."""
    checker = LiveChecker(address(url, mode), low=_LOW[mode])
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _StrictClient(checker, mode).run()
    checker.finish()
    return checker


@contextmanager
def checking(url: str, *, mode: Mode = "low") -> Generator[LiveChecker]:
    """Follow a stream for the length of the block, on an event loop in another thread."""
    checker = LiveChecker(address(url, mode), low=_LOW[mode])
    client = _StrictClient(checker, mode)
    faults: list[Exception] = []
    loop = asyncio.new_event_loop()
    running = loop.create_task(client.run())

    def run() -> None:
        try:
            loop.run_until_complete(running)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  # an error of the checker fails the test below
            faults.append(error)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=run, name="strict client")
    thread.start()
    try:
        yield checker
    finally:
        with suppress(RuntimeError):  # it ended by itself
            loop.call_soon_threadsafe(running.cancel)
        thread.join()
    if faults:
        raise faults[0]
    checker.finish()


def address(url: str, mode: Mode) -> str:
    """Return the URL of the multivariant playlist for a mode."""
    return f"{url}?latency=normal" if mode == "normal" else url


class _StrictClient:
    def __init__(self, checker: LiveChecker, mode: Mode) -> None:
        self._checker = checker
        self._mode = mode
        self._fetched: set[str] = set()
        self._followed: set[str] = set()

    async def run(self) -> None:
        """Follow until cancelled."""
        timeout = httpx.Timeout(30)
        async with (
            httpx.AsyncClient(
                verify=PLAIN, timeout=timeout, headers={"Accept-Encoding": "identity"}
            ) as client,
            asyncio.TaskGroup() as tasks,
        ):
            self._client = client
            while True:
                await self._get(self._checker.url)
                for url, rendition in self._checker.renditions.items():
                    if url not in self._followed:
                        self._followed.add(url)
                        tasks.create_task(self._follow(rendition, tasks))
                await asyncio.sleep(_VARIANTS_SECONDS)

    async def _get(self, url: str, *, compressed: bool = False) -> bool:
        """Fetch a URL for the checker; return False if there was no response."""
        began = time.monotonic()
        headers = {"Accept-Encoding": "gzip"} if compressed else {}
        try:
            async with self._client.stream("GET", url, headers=headers) as answer:
                body = b"".join([piece async for piece in answer.aiter_raw()])
        except httpx.HTTPError as error:
            if isinstance(error, httpx.ConnectError):
                self._checker.interrupt()
            await asyncio.sleep(_AWAY_SECONDS)
            return False
        self._checker.feed(
            Fetch(
                url=url,
                began=began,
                ended=time.monotonic(),
                status=answer.status_code,
                headers={name.lower(): value for name, value in answer.headers.items()},
                body=body,
            )
        )
        return True

    async def _follow(self, rendition: CheckedRendition, tasks: asyncio.TaskGroup) -> None:
        """Follow one rendition until its end, and fetch its last playlist once more."""
        history, turn = rendition.history, 0
        while history.last is None or not history.last.ended:
            turn += 1
            url = self._next(rendition, turn)
            answered = await self._get(url)
            text = history.last
            if text is None or not answered:
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            if self._mode == "low":
                self._request_hints(rendition, text, tasks)
            await self._fetch_media(rendition, text)
            if turn % _PROBES == 0:
                await self._probe(rendition, text)
            if not self._blocks(text):
                await asyncio.sleep(_POLL_SECONDS)
        await asyncio.sleep(_POLL_SECONDS)
        await self._get(history.url)

    def _blocks(self, text: MediaText | None) -> bool:
        control = None if text is None else text.control
        return self._mode == "low" and control is not None and control.can_block_reload

    def _next(self, rendition: CheckedRendition, turn: int) -> str:
        """Return the URL of the next playlist, as a blocking request (6.3.8)."""
        url, text = rendition.history.url, rendition.history.last
        if text is None or not self._blocks(text):
            return url
        due = text.sequence + len(text.segments)
        part = len(text.open.parts) if text.open else 0
        query = f"_HLS_msn={due}" + (f"&_HLS_part={part}" if text.part_target is not None else "")
        age = time.monotonic() - rendition.history.at
        until = text.control.can_skip_until if text.control else None
        if turn % 3 == 0 and until is not None and age < until / 2:
            query += "&_HLS_skip=YES"
        return _with_query(url, query)

    def _request_hints(
        self, rendition: CheckedRendition, text: MediaText, tasks: asyncio.TaskGroup
    ) -> None:
        for hint in text.hints:
            url = joined(rendition.history.url, hint.uri)
            if url not in self._fetched:
                self._fetched.add(url)
                tasks.create_task(self._get(url))

    async def _fetch_media(self, rendition: CheckedRendition, text: MediaText) -> None:
        """Fetch the new media of a playlist, init sections first."""
        uris: list[str] = []
        for segment in text.all:
            if segment.map_uri is not None:
                uris.append(segment.map_uri)
            if self._mode == "low":
                uris += [part.uri for part in segment.parts if not part.gap]
            if segment.uri and not segment.gap:
                uris.append(segment.uri)
        for uri in uris:
            url = joined(rendition.history.url, uri)
            if url not in self._fetched:
                self._fetched.add(url)
                if not await self._get(url):
                    self._fetched.discard(url)

    async def _probe(self, rendition: CheckedRendition, text: MediaText) -> None:
        """Send unusual requests."""
        url = rendition.history.url
        for compressed in (False, True, False):
            await self._get(url, compressed=compressed)
        if self._blocks(text):
            await self._get(_with_query(url, f"_HLS_msn={text.last[0] + 20}"))
            await self._get(_with_query(url, "_HLS_part=1"))
            await self._get(_with_query(url, f"_HLS_msn={text.sequence}"))
        if text.control is not None and text.control.can_skip_until is not None:
            await self._get(_with_query(url, "_HLS_skip=YES"))
        # Removed media must stay available for a while (6.2.2).
        removed = rendition.history.known.get(text.sequence - 1)
        if removed is not None and not removed.lines.gap and removed.lines.uri:
            await self._get(joined(url, removed.lines.uri))


def _with_query(url: str, query: str) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{query}"
