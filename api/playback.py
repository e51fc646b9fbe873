"""The origin of live media: playlists, init sections, segments and parts below `/live`.

Only addresses of the forms in `_ADDRESS` exist here, so a run's notes or a store's temporaries can
never be asked for. Playlists come from the edge, or from disk where this process does not carry the
stream; parts from the edge alone; all else from disk. Every request is asked for access; who is
shown is remembered for a second, so that a segment costs no query.

Media names are used once, so caches may keep them for ever; playlists change every 2 s and are
fresh for one. What only its owner may see is kept by nobody.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

import msgspec
from litestar.handlers import ASGIRouteHandler, asgi
from litestar.types import Receive, Scope, Send

from api.access import Access, decide
from api.conditional import Unsatisfiable, byte_range, matches, takes_gzip
from api.files import OpenFile, open_file
from api.ports import OwnerCheck, Showcase
from media.ladder import AUDIO_RENDITION
from storage.catalog.records import Shown
from storage.edge.base import Edge, Text
from storage.errors import StorageError
from storage.objects.base import ObjectMissing
from storage.objects.disk import DiskObjects

__all__ = ["Origin", "playback_handler"]

log = logging.getLogger(__name__)

MOUNT: Final = "/live"
_RENDITION: Final = r"[0-9A-Za-z_]{1,20}"
_ADDRESS: Final = re.compile(
    r"/(?P<hash>[0-9A-Za-z]{12})/(?:"
    r"(?P<variants>index\.m3u8)|"
    rf"[0-9]{{8}}T[0-9]{{9}}/(?P<rendition>{_RENDITION})/(?:"
    r"(?P<playlist>index\.m3u8)|(?P<part>[0-9]{1,12}\.[0-9]{1,6}\.m4s)|"
    r"(?P<media>[0-9]{1,12}\.m4s|init-[0-9]{1,9}\.mp4)))"
)
_PLAYLIST: Final = "application/vnd.apple.mpegurl"
_REMEMBERED: Final = 1.0  # seconds that a verdict may be old
_MOST_REMEMBERED: Final = 10_000
_MOST_TEXTS: Final = 512  # playlists read from disk, 12 kB each

_FOREVER: Final = "public, max-age=31536000, immutable"
_BRIEF: Final = "public, max-age=1"  # below half of the shortest segment
# A part goes to the edge before its segment is sure to be listed, and could be made anew.
_PART: Final = "public, max-age=10"
_NEVER: Final = "no-store"
_OWNER: Final = "private, no-store"

_METHODS: Final = "GET, HEAD, OPTIONS"
_CROSS_ORIGIN: Final = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "Content-Length, Content-Range, Content-Encoding, ETag, Date",
    "cross-origin-resource-policy": "cross-origin",
    "timing-allow-origin": "*",
    "x-content-type-options": "nosniff",
}
_PREFLIGHT: Final = {
    "allow": _METHODS,
    "access-control-allow-methods": _METHODS,
    "access-control-allow-headers": "Authorization, If-None-Match, If-Range, Range",
    "access-control-max-age": "86400",
}


class _Asked(msgspec.Struct, frozen=True):
    """A request; header names in lower case."""

    method: str
    headers: dict[str, str]
    send: Send


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """An object as it can be sent: bytes or a file, and the headers that describe it."""

    body: bytes | OpenFile
    kind: str
    cache: str
    tag: str | None = None
    more: dict[str, str] = {}

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.body) if isinstance(self.body, bytes) else self.body.size


class Origin:
    """Answers requests for what `Publication` publishes; an ASGI application below its mount."""

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
        self._edge = edge
        self._showcase = showcase
        self._is_owner = is_owner
        self._clock = clock
        self._shown: dict[str, tuple[float, Shown | None]] = {}
        self._texts: dict[str, tuple[str, Text]] = {}

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request; `scope["path"]` is what follows the mount."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        asked = _Asked(scope["method"], headers, send)
        if asked.method == "OPTIONS":
            await _reply(asked, 204, _PREFLIGHT)
        elif asked.method not in {"GET", "HEAD"}:
            await _reply(asked, 405, {"allow": _METHODS, "cache-control": _NEVER})
        else:
            # The router puts a slash behind a mounted path.
            await self._answer(asked, scope["path"].removesuffix("/"))

    async def _answer(self, asked: _Asked, path: str) -> None:
        match = _ADDRESS.fullmatch(path)
        if match is None:
            await _not_found(asked)
            return
        try:
            access = await self._access(match["hash"], asked.headers.get("authorization"))
            held = None if access is Access.NONE else await self._held(match, asked)
        except (StorageError, OSError) as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            await _reply(asked, 503, {"retry-after": "1", "cache-control": _NEVER})
            return
        if held is None:
            await _not_found(asked)
            return
        try:
            await _send(asked, held, private=access is Access.OWNER)
        finally:
            if isinstance(held.body, OpenFile):
                held.body.close()

    # -- who --------------------------------------------------------------------------------------

    async def _access(self, hash_: str, authorization: str | None) -> Access:
        now = self._clock()
        known = self._shown.get(hash_)
        if known is None or now - known[0] >= _REMEMBERED:
            if len(self._shown) >= _MOST_REMEMBERED:
                self._shown.clear()  # strangers' guesses; the true ones are asked for again
            known = self._shown[hash_] = (now, await self._showcase.shown(hash_))
        access = decide(known[1], owner=False)
        if access is Access.NONE and known[1] is not None and authorization is not None:
            owner = await self._is_owner(authorization, hash_)
            access = decide(known[1], owner=owner)
        return access

    # -- what -------------------------------------------------------------------------------------

    async def _held(self, match: re.Match[str], asked: _Asked) -> _Held | None:
        address = "live" + match[0]
        if match["variants"] or match["playlist"]:
            text = await self._text(address)
            return None if text is None else _playlist(text, asked)
        kind = "audio/mp4" if match["rendition"] == AUDIO_RENDITION else "video/mp4"
        if match["part"]:
            part = await self._edge.part(address)
            return None if part is None else _Held(body=part, kind=kind, cache=_PART)
        try:
            body = open_file(self._objects.path(address))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _Held(body=body, kind=kind, cache=_FOREVER, tag=body.tag)

    async def _text(self, address: str) -> Text | None:
        """Return a playlist: the edge's, or the one on disk, read once per change."""
        text = await self._edge.text(address)
        if text is not None:
            return text
        stat = await self._objects.stat(address)
        if stat is None:
            return None
        mark = f"{stat.modified_us}-{stat.size}"
        known = self._texts.get(address)
        if known is not None and known[0] == mark:
            return known[1]
        try:
            text = Text.of((await self._objects.get(address)).decode())
        except ObjectMissing:
            return None
        if len(self._texts) >= _MOST_TEXTS:
            del self._texts[next(iter(self._texts))]
        self._texts[address] = (mark, text)
        return text


def playback_handler(
    *, objects: DiskObjects, edge: Edge, showcase: Showcase, is_owner: OwnerCheck
) -> ASGIRouteHandler:
    """Return the origin as a route of the application."""
    origin = Origin(objects=objects, edge=edge, showcase=showcase, is_owner=is_owner)

    async def playback(scope: Scope, receive: Receive, send: Send) -> None:
        await origin(scope, receive, send)

    return asgi(MOUNT, is_mount=True, copy_scope=True)(playback)


def _playlist(text: Text, asked: _Asked) -> _Held:
    more = {"vary": "Accept-Encoding"}
    if takes_gzip(asked.headers.get("accept-encoding")):
        # Other bytes, so another strong tag.
        more["content-encoding"] = "gzip"
        return _Held(
            body=text.compressed, kind=_PLAYLIST, cache=_BRIEF, tag=f'"{text.tag}-gz"', more=more
        )
    return _Held(body=text.body, kind=_PLAYLIST, cache=_BRIEF, tag=f'"{text.tag}"', more=more)


async def _send(asked: _Asked, held: _Held, *, private: bool) -> None:
    """Send an object, a range of it, or word that the asker has it already."""
    headers = {
        **held.more,
        "content-type": held.kind,
        "cache-control": _OWNER if private else held.cache,
        "accept-ranges": "bytes",
    }
    if held.tag is not None:
        headers["etag"] = held.tag
        if matches(asked.headers.get("if-none-match"), held.tag):
            await _reply(asked, 304, headers)
            return
    start, stop, status = 0, held.size, 200
    # If-Range: the rest of an older object must not be put behind its beginning (RFC 9110, 13.1.5).
    if asked.headers.get("if-range", held.tag) == held.tag:
        try:
            found = byte_range(asked.headers.get("range"), held.size)
        except Unsatisfiable:
            headers = {"content-range": f"bytes */{held.size}", "cache-control": _NEVER}
            await _reply(asked, 416, headers)
            return
        if found is not None:
            start, stop = found
            status = 206
            headers["content-range"] = f"bytes {start}-{stop - 1}/{held.size}"
    headers["content-length"] = str(stop - start)
    await _begin(asked, status, headers)
    if asked.method == "GET" and isinstance(held.body, OpenFile):
        async for piece in held.body.read(start, stop):
            await asked.send({"type": "http.response.body", "body": piece, "more_body": True})
    body = held.body[start:stop] if asked.method == "GET" and isinstance(held.body, bytes) else b""
    await asked.send({"type": "http.response.body", "body": body, "more_body": False})


async def _not_found(asked: _Asked) -> None:
    # Nothing may remember it: the next moment the stream may begin.
    await _reply(
        asked, 404, {"content-type": "text/plain", "cache-control": _NEVER}, b"not found\n"
    )


async def _reply(asked: _Asked, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    if status not in {204, 304}:
        headers = {**headers, "content-length": str(len(body))}
    await _begin(asked, status, headers)
    if asked.method == "HEAD":
        body = b""
    await asked.send({"type": "http.response.body", "body": body, "more_body": False})


async def _begin(asked: _Asked, status: int, headers: dict[str, str]) -> None:
    pairs = [
        (name.encode(), value.encode()) for name, value in {**_CROSS_ORIGIN, **headers}.items()
    ]
    await asked.send({"type": "http.response.start", "status": status, "headers": pairs})
