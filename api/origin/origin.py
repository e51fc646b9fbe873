"""The origin: playlists, init sections, segments, parts and posters below `/live` and `/videos`.

Live playlists come from the edge, or from disk where this process does not carry the stream; parts
from the edge alone; all else from disk. Every request is asked for access
(`api.origin.visibility`). Media names are used once, so caches may keep them for ever; live
playlists change every 2 s and are fresh for one. What is not open to all is kept by nobody.

Nearly all requests find what they need in memory: access was looked up within the last second, the
playlist is in memory, the segment in the page cache. `Origin.fast_path` answers these without a
task and without ASGI messages, for a server that can use it.
"""

import logging
import re
import time
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, Final

from litestar.types import ASGIApp, Receive, Scope, Send

from api.http.client_address import RawHeaders
from api.http.conditional import takes_gzip
from api.http.media_response import METHODS, Answer, Asked, Headers, Held, answer, described, plain
from api.http.open_file import open_file
from api.http.static_files import Asset
from api.origin.access import Access
from api.origin.routes import CARD, PLAYLIST, ROOMS, belongs, form_of, is_early, object_of, place
from api.origin.visibility import Verdict, Verdicts, Viewer
from storage.edge.base import CachedPlaylist, Edge
from storage.errors import StorageError
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects

__all__ = ["Origin", "OriginFirst"]

log = logging.getLogger(__name__)

_MOST_TEXTS: Final = 512  # playlists read from disk, 12 kB each
# Two playlists written within one tick of the file system's clock may look the same.
_TRUSTED: Final = 1.0  # seconds that a playlist read from disk is taken to be the one there

_NEVER: Final = "no-store"
_PRIVATE: Final = "private, no-store"
_PLACEHOLDER: Final = "public, max-age=10"  # in place of a poster that may come any moment

_PREFLIGHT: Final = {
    "allow": METHODS,
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": "Authorization, If-None-Match, If-Range, Range",
    "access-control-max-age": "86400",
}
# What an answer's form depends on.
_HEEDED: Final = frozenset({b"accept-encoding", b"if-none-match", b"if-range", b"range"})


class Origin:
    """Answers requests for what is published; an ASGI application.

    `card` is the default poster of what has none. `clock` is in seconds.
    """

    def __init__(
        self,
        *,
        objects: DiskObjects,
        edge: Edge,
        verdicts: Verdicts,
        card: Asset | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        # Nothing gets through the patterns that is no address; pathlib costs as much as opening.
        self._root = f"{objects.root}/"
        self._edge = edge
        self._verdicts = verdicts
        self._card = card
        self._clock = clock
        self._texts: dict[str, tuple[float, tuple[int, int], CachedPlaylist]] = {}

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        method = scope["method"]
        if method == "OPTIONS":
            found = plain(204, _PREFLIGHT)
        elif method not in {"GET", "HEAD"}:
            found = plain(405, {"allow": METHODS, "cache-control": _NEVER})
        else:
            viewer = Viewer.of(scope)
            found = await self._answer(_asked(method, viewer.headers), scope["path"], viewer)
        try:
            await _send(found, method, send)
        finally:
            found.close()

    def fast_path(
        self, method: str, path: str, headers: RawHeaders, peer: str | None = None
    ) -> Answer | Coroutine[Any, Any, Answer] | None:
        """Answer from what is at hand, or say how to wait for it; None: the application is asked.

        `path` is as it came over the wire: one with a query or an escape takes the long way. Who
        calls sends the answer and closes it. `peer` is the address at the connection's other end.
        Nothing blocks but the opening of a file.
        """
        if method not in {"GET", "HEAD"}:
            return None
        match = place(path)
        if match is None:
            return None
        asked = _asked(method, headers)
        verdict = self._verdicts.at_hand(match["hash"], peer, headers)
        if verdict is not None:
            try:
                held = self._at_hand(match, asked, verdict)
            except OSError:
                held = None  # is met again on the way below, and told
            if held is not None:
                return answer(asked, held)
        return self._answer(asked, path, Viewer(peer, headers)) if method == "GET" else None

    async def _answer(self, asked: Asked, path: str, viewer: Viewer) -> Answer:
        match = place(path)
        if match is None:
            return _not_found()
        try:
            verdict = await self._verdicts.ask(match["hash"], viewer, early=is_early(match))
            if verdict.access is Access.BLOCKED:
                return _blocked()
            held = await self._held(match, asked, verdict) if verdict.access.seen else None
        except (StorageError, OSError) as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return plain(503, {"retry-after": "1", "cache-control": _NEVER})
        return _not_found() if held is None else answer(asked, held)

    # -- what -------------------------------------------------------------------------------------

    def _at_hand(self, match: re.Match[str], asked: Asked, verdict: Verdict) -> Held | None:
        """Return an object that is in memory or can be opened; None: it may be elsewhere."""
        address = None if verdict.shown is None else object_of(match, verdict.shown)
        if address is None:
            return None
        if match["media"] or match["poster"] or match["preview"]:
            try:
                file = open_file(self._root + address)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return Held(body=file, headers=_headers(match, verdict.access), tag=file.tag)
        if match["part"]:
            return _part(self._edge.local_part(address), match, verdict.access)
        text = self._edge.local_playlist(address) or self._read_before(address)
        return _text(text, match, asked, verdict.access)

    async def _held(self, match: re.Match[str], asked: Asked, verdict: Verdict) -> Held | None:
        held = self._at_hand(match, asked, verdict)
        if held is not None or match["media"] or match["preview"]:
            return held
        if match["poster"] == CARD:
            return self._placeholder(match, verdict)
        address = None if verdict.shown is None else object_of(match, verdict.shown)
        if address is None or match["poster"]:
            return None
        if match["part"]:
            return _part(await self._edge.get_part(address), match, verdict.access)
        return _text(await self._read(address), match, asked, verdict.access)

    def _placeholder(self, match: re.Match[str], verdict: Verdict) -> Held | None:
        card = self._card
        if card is None or verdict.shown is None or not belongs(match, verdict.shown):
            return None
        cached = _PLACEHOLDER if verdict.access.kept else _PRIVATE
        headers = _described(form_of(match)[0], cached, "")
        return Held(body=card.body, headers=headers, tag=card.tag)

    def _read_before(self, address: str) -> CachedPlaylist | None:
        """Return a playlist that was read from disk, if it is still the same there."""
        known = self._texts.get(address)
        if known is None or self._clock() - known[0] >= _TRUSTED:
            return None
        try:
            stat = self._objects.path(address).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return known[2] if known[1] == (stat.st_mtime_ns // 1000, stat.st_size) else None

    async def _read(self, address: str) -> CachedPlaylist | None:
        """Return a playlist: the edge's, or the one on disk, read once per change."""
        text = await self._edge.get_playlist(address)
        if text is not None:
            return text
        now = self._clock()
        stat = await self._objects.stat(address)
        if stat is None:
            return None
        try:
            text = CachedPlaylist.from_text((await self._objects.get(address)).decode())
        except ObjectMissing:
            return None
        self._texts.pop(address, None)
        if len(self._texts) >= _MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        # The mark is older than what was read: a change in between is read again.
        self._texts[address] = (now, (stat.modified_us, stat.size), text)
        return text


class OriginFirst:
    """An application whose requests for media go to the origin, all others to another.

    The origin comes before the other's routing: finding one of a few dozen routes, and seeing to
    exceptions, costs more there than a whole playlist does here.
    """

    def __init__(self, origin: Origin, other: ASGIApp) -> None:
        self._origin = origin
        self._other = other
        self.fast_path = origin.fast_path

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # ASGI's own maps
        """Hand a request on."""
        if scope["type"] != "lifespan" and scope["path"].startswith(ROOMS):
            await self._origin(scope, receive, send)
        else:
            await self._other(scope, receive, send)


def _asked(method: str, headers: RawHeaders) -> Asked:
    return Asked(
        method,
        {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in _HEEDED
        },
    )


def _headers(match: re.Match[str], access: Access, coding: str = "") -> Headers:
    kind, kept = form_of(match)
    return _described(kind, kept if access.kept else _PRIVATE, coding)


@cache
def _described(kind: str, cached: str, coding: str) -> Headers:
    """Return the headers of a kind of object; there are a dozen sets."""
    more = {"vary": "Accept-Encoding"} if kind == PLAYLIST else {}
    if coding:
        more["content-encoding"] = coding
    return described(kind, cached, more)


def _part(part: bytes | None, match: re.Match[str], access: Access) -> Held | None:
    if part is None:
        return None
    return Held(body=part, headers=_headers(match, access))


def _text(
    text: CachedPlaylist | None, match: re.Match[str], asked: Asked, access: Access
) -> Held | None:
    if text is None:
        return None
    if takes_gzip(asked.headers.get("accept-encoding")):
        # Other bytes, so another strong tag.
        headers = _headers(match, access, "gzip")
        return Held(body=text.compressed, headers=headers, tag=f'"{text.tag}-gz"')
    return Held(body=text.body, headers=_headers(match, access), tag=f'"{text.tag}"')


def _not_found() -> Answer:
    # Nothing may remember it: the next moment the stream may begin.
    headers = {"content-type": "text/plain", "cache-control": _NEVER}
    return plain(404, headers, b"not found\n")


def _blocked() -> Answer:
    headers = {"content-type": "text/plain", "cache-control": _PRIVATE}
    return plain(451, headers, b"not available in your country\n")


async def _send(answer: Answer, method: str, send: Send) -> None:
    await send(
        {"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)}
    )
    if answer.file is not None:
        async for piece in answer.file.read(answer.start, answer.stop):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    body = b"" if method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body, "more_body": False})
