"""The origin of live media: playlists, init sections, segments and parts below `/live`.

Only addresses of the forms in `_ADDRESS` exist here, so a run's notes or a store's temporaries can
never be asked for. Playlists come from the edge, or from disk where this process does not carry the
stream; parts from the edge alone; all else from disk. Every request is asked for access; who is
shown is remembered for a second, so that a segment costs no query.

Media names are used once, so caches may keep them for ever; playlists change every 2 s and are
fresh for one. What only its owner may see is kept by nobody.

Nearly all requests are for what is at hand: somebody asked for the stream within the second, the
playlist is in memory, the segment in the page cache. `Origin.shortcut` answers these without a task
and without messages, for a server that can use it.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any, Final

from litestar.types import ASGIApp, Receive, Scope, Send

from api.access import Access, decide
from api.answers import METHODS, Answer, Asked, Headers, Held, answer, described, plain
from api.conditional import takes_gzip
from api.files import open_file
from api.ports import OwnerCheck, Showcase
from media.ladder import AUDIO_RENDITION
from storage.catalog.records import Shown
from storage.edge.base import Edge, Text
from storage.errors import StorageError
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects

__all__ = ["Origin", "OriginFirst"]

log = logging.getLogger(__name__)

ROOM: Final = "/live"
_RENDITION: Final = r"[0-9A-Za-z_]{1,20}"
_ADDRESS: Final = re.compile(
    r"/live/(?P<hash>[0-9A-Za-z]{12})/(?:"
    r"(?P<variants>index\.m3u8)|"
    rf"[0-9]{{8}}T[0-9]{{9}}/(?P<rendition>{_RENDITION})/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<part>[0-9]{1,12}\.[0-9]{1,6}\.m4s)|"
    r"(?P<media>[0-9]{1,12}\.m4s|init-[0-9]{1,9}\.mp4)))"
)
_PLAYLIST: Final = "application/vnd.apple.mpegurl"
_REMEMBERED: Final = 1.0  # seconds that a verdict may be old
_MOST_REMEMBERED: Final = 10_000
_MOST_TEXTS: Final = 512  # playlists read from disk, 12 kB each
# Two playlists written within one tick of the file system's clock may look the same.
_TRUSTED: Final = 1.0  # seconds that a playlist read from disk is taken to be the one there

_FOREVER: Final = "public, max-age=31536000, immutable"
_BRIEF: Final = "public, max-age=1"  # below half of the shortest segment
# A part goes to the edge before its segment is sure to be listed, and could be made anew.
_PART: Final = "public, max-age=10"
_NEVER: Final = "no-store"
_OWNER: Final = "private, no-store"

_PREFLIGHT: Final = {
    "allow": METHODS,
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": "Authorization, If-None-Match, If-Range, Range",
    "access-control-max-age": "86400",
}
# What an answer depends on; all other headers are passed over.
_HEEDED: Final = frozenset(
    {b"accept-encoding", b"authorization", b"if-none-match", b"if-range", b"range"}
)


class Origin:
    """Answers requests for what `Publication` publishes; an ASGI application."""

    def __init__(
        self,
        *,
        objects: DiskObjects,
        edge: Edge,
        showcase: Showcase,
        is_owner: OwnerCheck,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        # Nothing gets through the pattern that is no address; pathlib costs as much as opening.
        self._root = str(objects.root)
        self._edge = edge
        self._showcase = showcase
        self._is_owner = is_owner
        self._clock = clock
        self._shown: dict[str, tuple[float, Shown | None]] = {}
        self._asking: dict[str, asyncio.Future[Shown | None]] = {}
        self._texts: dict[str, tuple[float, tuple[int, int], Text]] = {}

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        asked = _asked(scope["method"], scope["headers"])
        if asked.method == "OPTIONS":
            found = plain(204, _PREFLIGHT)
        elif asked.method not in {"GET", "HEAD"}:
            found = plain(405, {"allow": METHODS, "cache-control": _NEVER})
        else:
            found = await self._answer(asked, scope["path"])
        try:
            await _send(found, asked.method, send)
        finally:
            found.close()

    def shortcut(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> Answer | Coroutine[Any, Any, Answer] | None:
        """Answer from what is at hand, or say how to wait for it; None: the application is asked.

        `path` is as it came over the wire: one with a query or an escape takes the long way. Who
        calls sends the answer and closes it. Nothing blocks but the opening of a file.
        """
        if method not in {"GET", "HEAD"}:
            return None
        match = _ADDRESS.fullmatch(path)
        if match is None:
            return None
        asked = _asked(method, headers)
        known = self._remembered(match["hash"])
        if known is not None and decide(known[1], owner=False) is Access.OPEN:
            try:
                held = self._at_hand(match, asked, Access.OPEN)
            except OSError:
                held = None  # is met again on the way below, and told
            if held is not None:
                return answer(asked, held)
        return self._answer(asked, path) if method == "GET" else None

    async def _answer(self, asked: Asked, path: str) -> Answer:
        match = _ADDRESS.fullmatch(path)
        if match is None:
            return _not_found()
        try:
            access = await self._access(match["hash"], asked.headers.get("authorization"))
            held = None if access is Access.NONE else await self._held(match, asked, access)
        except (StorageError, OSError) as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return plain(503, {"retry-after": "1", "cache-control": _NEVER})
        return _not_found() if held is None else answer(asked, held)

    # -- who --------------------------------------------------------------------------------------

    def _remembered(self, hash_: str) -> tuple[float, Shown | None] | None:
        known = self._shown.get(hash_)
        return known if known is not None and self._clock() - known[0] < _REMEMBERED else None

    async def _access(self, hash_: str, authorization: str | None) -> Access:
        known = self._remembered(hash_)
        shown = await self._ask(hash_) if known is None else known[1]
        access = decide(shown, owner=False)
        if access is Access.NONE and shown is not None and authorization is not None:
            owner = await self._is_owner(authorization, hash_)
            access = decide(shown, owner=owner)
        return access

    async def _ask(self, hash_: str) -> Shown | None:
        """Ask the showcase, once for all requests that want to know at this moment.

        Each second the whole audience of a stream wants to; a query for each of them would hold
        them all up.
        """
        asking = self._asking.get(hash_)
        if asking is not None:
            return await asyncio.shield(asking)
        asking = self._asking[hash_] = asyncio.get_running_loop().create_future()
        asked_at = self._clock()
        try:
            shown = await self._showcase.shown(hash_)
        except BaseException as error:
            # A request that is cancelled takes no other with it.
            mine = isinstance(error, Exception)
            asking.set_exception(error if mine else StorageError("nobody asks any more"))
            asking.exception()  # perhaps nobody else waits for it
            raise
        finally:
            del self._asking[hash_]
        if len(self._shown) >= _MOST_REMEMBERED:
            self._shown.clear()  # strangers' guesses; the true ones are asked for again
        self._shown[hash_] = (asked_at, shown)
        asking.set_result(shown)
        return shown

    # -- what -------------------------------------------------------------------------------------

    def _at_hand(self, match: re.Match[str], asked: Asked, access: Access) -> Held | None:
        """Return an object that is in memory or can be opened; None: it may be elsewhere."""
        address = match[0][1:]
        if match["media"]:
            try:
                file = open_file(self._root + match[0])
            except (FileNotFoundError, NotADirectoryError):
                return None
            return Held(body=file, headers=_headers(_kind(match), _FOREVER, access), tag=file.tag)
        if match["part"]:
            return _part(self._edge.part_here(address), match, access)
        text = self._edge.text_here(address) or self._read_before(address)
        return _text(text, asked, access)

    async def _held(self, match: re.Match[str], asked: Asked, access: Access) -> Held | None:
        held = self._at_hand(match, asked, access)
        if held is not None or match["media"]:
            return held
        address = match[0][1:]
        if match["part"]:
            return _part(await self._edge.part(address), match, access)
        return _text(await self._read(address), asked, access)

    def _read_before(self, address: str) -> Text | None:
        """Return a playlist that was read from disk, if it is still the same there."""
        known = self._texts.get(address)
        if known is None or self._clock() - known[0] >= _TRUSTED:
            return None
        try:
            stat = self._objects.path(address).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return known[2] if known[1] == (stat.st_mtime_ns // 1000, stat.st_size) else None

    async def _read(self, address: str) -> Text | None:
        """Return a playlist: the edge's, or the one on disk, read once per change."""
        text = await self._edge.text(address)
        if text is not None:
            return text
        now = self._clock()
        stat = await self._objects.stat(address)
        if stat is None:
            return None
        try:
            text = Text.of((await self._objects.get(address)).decode())
        except ObjectMissing:
            return None
        self._texts.pop(address, None)
        if len(self._texts) >= _MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        # The mark is older than what was read: a change in between is read again.
        self._texts[address] = (now, (stat.modified_us, stat.size), text)
        return text


class OriginFirst:
    """An application whose requests below `/live` go to the origin, all others to another.

    The origin comes before the other's routing: finding one of a few dozen routes, and seeing to
    exceptions, costs more there than a whole playlist does here.
    """

    def __init__(self, origin: Origin, other: ASGIApp) -> None:
        self._origin = origin
        self._other = other
        self.shortcut = origin.shortcut

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # ASGI's own maps
        """Hand a request on."""
        if scope["type"] != "lifespan" and scope["path"].startswith(ROOM):
            await self._origin(scope, receive, send)
        else:
            await self._other(scope, receive, send)


def _asked(method: str, headers: Sequence[tuple[bytes, bytes]]) -> Asked:
    return Asked(
        method,
        {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in _HEEDED
        },
    )


def _kind(match: re.Match[str]) -> str:
    return "audio/mp4" if match["rendition"] == AUDIO_RENDITION else "video/mp4"


@cache
def _headers(kind: str, kept: str, access: Access, coding: str = "") -> Headers:
    """Return the headers of a kind of object; there are a dozen sets."""
    more = {"vary": "Accept-Encoding"} if kind == _PLAYLIST else {}
    if coding:
        more["content-encoding"] = coding
    return described(kind, _OWNER if access is Access.OWNER else kept, more)


def _part(part: bytes | None, match: re.Match[str], access: Access) -> Held | None:
    if part is None:
        return None
    return Held(body=part, headers=_headers(_kind(match), _PART, access))


def _text(text: Text | None, asked: Asked, access: Access) -> Held | None:
    if text is None:
        return None
    if takes_gzip(asked.headers.get("accept-encoding")):
        # Other bytes, so another strong tag.
        headers = _headers(_PLAYLIST, _BRIEF, access, "gzip")
        return Held(body=text.compressed, headers=headers, tag=f'"{text.tag}-gz"')
    return Held(body=text.body, headers=_headers(_PLAYLIST, _BRIEF, access), tag=f'"{text.tag}"')


def _not_found() -> Answer:
    # Nothing may remember it: the next moment the stream may begin.
    headers = {"content-type": "text/plain", "cache-control": _NEVER}
    return plain(404, headers, b"not found\n")


async def _send(answer: Answer, method: str, send: Send) -> None:
    await send(
        {"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)}
    )
    if answer.file is not None:
        async for piece in answer.file.read(answer.start, answer.stop):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    body = b"" if method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body, "more_body": False})
