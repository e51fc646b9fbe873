"""The origin: playlists, init sections, segments, parts and posters below `/live` and `/videos`.

Live playlists come from the edge, or from disk if it does not have the stream; parts come only from
the edge, and so do segments that are not stored yet; everything else comes from disk. Access is
decided for every request (`api.origin.visibility`). Media names are never reused, so caches may
keep them for ever; live playlists change every 2 s and are fresh for 1 s. Restricted media are
never cached.

Made-up names of a bucket's objects do not cost a request each (`api.origin.absences`).

With `redirects`, viewers are redirected for stored media, after their access was decided as for any
other request.

Nearly all requests can be answered from memory: access was looked up within the last second, the
playlist is in memory, the segment in the page cache. `Origin.fast_path` answers these without a
task and without ASGI messages, for a server that can use it.
"""

import logging
import re
import time
from collections.abc import Callable, Coroutine
from functools import cache, partial
from typing import Any, Final

from litestar.types import ASGIApp, Receive, Scope, Send

from api.http.client_address import RawHeaders
from api.http.open_file import FileOpener, OpenFile
from api.http.response import (
    METHODS,
    PREFLIGHT,
    Headers,
    HttpRequest,
    HttpResponse,
    PendingResponse,
    Representation,
    cross_origin_response,
    media_headers,
    respond,
    send_response,
    wait_for,
)
from api.http.static_files import Asset
from api.origin.absences import Absences
from api.origin.access import AccessLevel
from api.origin.directives import BadDirective, Directives, parse_directives
from api.origin.redirects import Method, Redirects
from api.origin.routes import (
    DEFAULT_POSTER_LABEL,
    LIVE,
    PATH_PREFIXES,
    PLAYLIST_TYPE,
    content_type_and_caching,
    is_available_early,
    is_of_kind,
    match_path,
    object_address,
)
from api.origin.store_requests import Question, StoreRequests
from api.origin.visibility import Requester, ViewerAccess, VisibilityCache
from delivery.edge.base import NORMAL_LATENCY, CachedPlaylist, EdgeReader
from media.no_op import do_nothing
from storage.errors import StorageError
from storage.objects.store import MediaStore

__all__ = ["Origin", "OriginFirst"]

log = logging.getLogger(__name__)

_Answer = HttpResponse | PendingResponse

_UNCACHED: Final = "no-store"
_PRIVATE: Final = "private, no-store"
_PLACEHOLDER: Final = "public, max-age=10"  # the real poster may exist at any moment


class Origin:
    """Serves published media; an ASGI application.

    `card` is the default poster of streams and videos without one. `absences` is for a store in
    which each look-up costs a request. `clock` is in seconds.
    """

    def __init__(
        self,
        *,
        objects: MediaStore,
        edge: EdgeReader,
        visibility: VisibilityCache,
        card: Asset | None = None,
        redirects: Redirects | None = None,
        absences: Absences | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        # Joined as text: the route patterns admit no other paths, and pathlib costs as much as
        # opening the file.
        self._root = f"{objects.files}/"
        self._edge = edge
        self._files = FileOpener(clock)
        self._visibility = visibility
        self._card = card
        self._redirects = redirects
        self._requests = StoreRequests(objects, edge, absences=absences, clock=clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        method = scope["method"]
        if method == "OPTIONS":
            response = PREFLIGHT
        elif method not in {"GET", "HEAD"}:
            response = cross_origin_response(405, {"allow": METHODS, "cache-control": _UNCACHED})
        else:
            viewer = Requester.from_scope(scope)
            request = HttpRequest.of(method, viewer.headers)
            query = scope["query_string"].decode("latin-1")
            answer = await self._answer(request, scope["path"], query, viewer)
            pending = isinstance(answer, PendingResponse)
            response = await wait_for(answer, receive) if pending else answer
        if response is not None:
            await send_response(response, method, send)

    def fast_path(
        self, method: str, target: str, headers: RawHeaders, peer: str | None = None
    ) -> _Answer | Coroutine[Any, Any, _Answer] | None:
        """Return a response, a coroutine of one, or None if the request needs ASGI.

        `target` is the raw target: a path with escapes needs ASGI. The caller sends the response
        and closes it. `peer` is the address of the connection's peer.
        """
        if method != "GET":
            return None
        path, _, query = target.partition("?")
        match = match_path(path)
        if match is None:
            return None
        request = HttpRequest.of(method, headers)
        decision = self._visibility.cached(match["hash"], peer, headers)
        if decision is not None:
            try:
                answer = self._ready(match, request, decision, _directives_in(match, query))
            except BadDirective as error:
                return _bad_request(error)
            except OSError:
                answer = None  # fails again below, and is logged there
            if answer is not None:
                return answer
        return self._answer(request, path, query, Requester(peer, headers))

    def _ready(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        directives: Directives,
    ) -> _Answer | None:
        """Return a response if it needs neither the disk nor the store.

        Raises:
            BadDirective, OSError: as in `_pending` and `_at_hand`.
        """
        pending = self._pending(match, request, decision, directives)
        if pending is not None:
            return pending
        if self._redirects is not None and _may_be_elsewhere(match):
            return self._known_redirect(match, request, decision)
        representation = self._at_hand(match, request, decision, directives)
        return None if representation is None else respond(request, representation)

    async def _answer(
        self, request: HttpRequest, path: str, query: str, viewer: Requester
    ) -> _Answer:
        match = match_path(path)
        if match is None:
            return _not_found()
        try:
            directives = _directives_in(match, query)
            decision = await self._visibility.lookup(
                match["hash"], viewer, early=is_available_early(match)
            )
            if not decision.access.is_visible:
                return _blocked() if decision.access is AccessLevel.BLOCKED else _not_found()
            if match.re is LIVE and not match["media"] and not match["poster"]:
                await self._edge.catch_up(match[0][1:])
            pending = self._pending(match, request, decision, directives)
            if pending is not None:
                return pending
            question = await self._requests.question(match, decision)
            redirect = await self._redirect(match, request, decision, question)
            if redirect is not None:
                self._requests.note(question, is_there=True)
                return redirect
            representation = await self._find_representation(
                match, request, decision, directives, question
            )
            self._requests.note(question, is_there=representation is not None)
            if representation is None and match["poster"]:
                representation = await self._other_poster(match, request, viewer, decision)
        except BadDirective as error:
            return _bad_request(error)
        except (StorageError, OSError) as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return _try_again()
        if representation is None:
            return _try_again() if question.is_crowded else _not_found()
        return respond(request, representation)

    # -- blocking requests ------------------------------------------------------------------------

    def _pending(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        directives: Directives,
    ) -> PendingResponse | None:
        """Return a blocking response for a part that does not exist yet; None if it need not block.

        A playlist request blocks if its query says so, a part request if it is the next (6.2.6).

        Raises:
            BadDirective: the part is too far ahead.
        """
        if decision.shown is None or (directives.msn is None and not match["part"]):
            return None
        address = object_address(match, decision.shown)
        playlist = f"{match[0][1:].rpartition('/')[0]}/index.m3u8"
        timeline = None if address is None else self._edge.timeline(playlist)
        if address is None or timeline is None:
            return None
        if match["part"]:
            msn, part = _numbers(match["part"])
            if timeline.hint != match["part"] or self._edge.local_part(address) is not None:
                return None
        else:
            msn, part = directives.msn or 0, directives.part
            if timeline.is_too_far(msn, part):
                raise BadDirective("_HLS_msn or _HLS_part is too far ahead")
        if timeline.has(msn, part):
            return None

        return _BlockingResponse(
            partial(self._edge.wait, playlist, msn, part),
            partial(self._visibility.confirm, match["hash"], decision),
            partial(self._waited_response, match, request, decision, directives, playlist),
        )

    def _waited_response(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        directives: Directives,
        playlist: str,
    ) -> HttpResponse:
        """Return the response of a blocking request, whose access was confirmed."""
        timeline = self._edge.timeline(playlist)
        if directives.msn is not None and (
            timeline is None or not timeline.has(directives.msn, directives.part)
        ):
            return _try_again()
        try:
            representation = self._at_hand(match, request, decision, directives)
        except OSError as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return _try_again()
        if representation is None and timeline is not None and timeline.hint == match["part"]:
            # Not in time, but it may still come, for instance after a restart of the engine.
            return _try_again()
        return _not_found() if representation is None else respond(request, representation)

    # -- redirects --------------------------------------------------------------------------------

    def _known_redirect(
        self, match: re.Match[str], request: HttpRequest, decision: ViewerAccess
    ) -> HttpResponse | None:
        """Return the redirect of an object if it is known already."""
        address = None if decision.shown is None else object_address(match, decision.shown)
        if address is None or self._redirects is None:
            return None
        return self._redirects.known(_method(request), address, decision)

    async def _redirect(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        question: Question,
    ) -> HttpResponse | None:
        """Return the redirect of a visible object; None if it is served here.

        Raises:
            StorageError: the store does not answer.
        """
        if self._redirects is None or decision.shown is None or not _may_be_elsewhere(match):
            return None
        address = object_address(match, decision.shown)
        if address is None:
            return None
        if not question.may_ask:
            return self._redirects.known(_method(request), address, decision)
        return await self._redirects.find(_method(request), address, decision)

    # -- representations ------------------------------------------------------------------------

    def _at_hand(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        directives: Directives,
    ) -> Representation | None:
        """Return an object if it is in memory or was opened recently."""
        address = None if decision.shown is None else object_address(match, decision.shown)
        if address is None:
            return None
        if match["media"] or match["poster"] or match["preview"]:
            file = _file(self._files.open_known(self._root + address), match, decision.access)
            if file is not None or match.re is not LIVE or not match["media"]:
                return file
            return _part(self._edge.local_part(address), match, decision.access)
        if match["part"]:
            return _part(self._edge.local_part(address), match, decision.access)
        text = self._local_playlist(address, match, directives)
        if text is None and self._edge.knows(address):
            text = self._requests.remembered(address)
        return _text(text, match, request, decision.access)

    def _local_playlist(
        self, address: str, match: re.Match[str], directives: Directives
    ) -> CachedPlaylist | None:
        if match["variants"] and match.re is LIVE and not directives.low_latency:
            # While a run has no closed segment yet, there is only one for low latency.
            return self._edge.local_playlist(address + NORMAL_LATENCY)
        return self._edge.local_playlist(
            address, low_latency=directives.low_latency, skip=directives.skip
        )

    async def _find_representation(
        self,
        match: re.Match[str],
        request: HttpRequest,
        decision: ViewerAccess,
        directives: Directives,
        question: Question,
    ) -> Representation | None:
        representation = self._at_hand(match, request, decision, directives)
        address = None if decision.shown is None else object_address(match, decision.shown)
        if (
            representation is None
            and address
            and (match["media"] or match["poster"] or match["preview"])
        ):
            file = await self._files.open(self._root + address)
            if file is None and match.re is LIVE and match["media"]:
                # It is stored a moment after it is listed.
                representation = _part(await self._edge.get_part(address), match, decision.access)
            if file is None and representation is None and question.may_ask:
                file = await self._fetched(address)
            representation = representation or _file(file, match, decision.access)
        if representation is not None or match["media"] or match["preview"] or match["poster"]:
            return representation
        if address is None:
            return None
        if match["part"]:
            return _part(await self._edge.get_part(address), match, decision.access)
        if not question.may_ask:
            return None
        text = await self._requests.read(address)
        return _text(text, match, request, decision.access)

    async def _fetched(self, address: str) -> OpenFile | None:
        """Open an object that had to be copied from the store; None if it does not exist.

        Raises:
            ObjectError: it cannot be copied.
            OSError: the copy cannot be read.
        """
        async with self._objects.holding(address) as is_there:
            if not is_there:
                return None
            file = await self._files.open(self._root + address)
            if file is None:
                raise FileNotFoundError(f"{address}: its copy is gone")
            return file

    async def _other_poster(
        self,
        match: re.Match[str],
        request: HttpRequest,
        viewer: Requester,
        decision: ViewerAccess,
    ) -> Representation | None:
        """Return the successor of a deleted poster, or the placeholder if there is none.

        Its owner may have chosen another one since the record was looked up.

        Raises:
            StorageError: the catalog or the store does not answer.
        """
        if decision.shown is not None and object_address(match, decision.shown) is not None:
            decision = await self._visibility.lookup(match["hash"], viewer, early=True, anew=True)
            if not decision.access.is_visible:
                return None
            question = await self._requests.question(match, decision)
            representation = await self._find_representation(
                match, request, decision, Directives(), question
            )
            self._requests.note(question, is_there=representation is not None)
            if representation is not None:
                return representation
        is_default = match["poster"] == DEFAULT_POSTER_LABEL
        return self._placeholder(match, decision) if is_default else None

    def _placeholder(self, match: re.Match[str], decision: ViewerAccess) -> Representation | None:
        card = self._card
        if card is None or decision.shown is None or not is_of_kind(match, decision.shown):
            return None
        cached = _PLACEHOLDER if decision.access.is_cacheable else _PRIVATE
        headers = _described(content_type_and_caching(match)[0], cached, "")
        return Representation(body=card.body, headers=headers, tag=card.tag)


class _BlockingResponse(PendingResponse):
    """The response to a request for a part that will be listed soon (6.2.5.2, 6.2.6).

    `wait` waits for the part, `confirm` checks whether the viewer still has access, and `make`
    creates the response.
    """

    __slots__ = ("_callback", "_cancel", "_confirm", "_make", "_wait")

    def __init__(
        self,
        wait: Callable[[Callable[[], None]], Callable[[], None]],
        confirm: Callable[[Callable[[bool], None]], None],
        make: Callable[[], HttpResponse],
    ) -> None:
        self._wait = wait
        self._confirm = confirm
        self._make = make
        self._cancel: Callable[[], None] = do_nothing
        self._callback: Callable[[HttpResponse], None] | None = None

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        """Call back once the part is listed, or the wait has timed out."""
        self._callback = callback
        self._cancel = self._wait(self._ready)

    def cancel(self) -> None:
        """Stop waiting."""
        self._callback = None
        self._cancel()

    def _ready(self) -> None:
        self._confirm(self._answer)

    def _answer(self, may_still: bool) -> None:
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            # Its new access is decided when it retries.
            response = self._make() if may_still else _try_again()
        except Exception:  # the per-request edge: other requests must not be affected
            log.exception("request failed")
            response = _failed()
        callback(response)


class OriginFirst:
    """Passes requests for media to the origin and all others to another application.

    The origin comes before the other application's routing, which costs more for matching a few
    dozen routes and setting up exception handling than the origin for serving a playlist.
    """

    def __init__(self, origin: Origin, other: ASGIApp) -> None:
        self._origin = origin
        self._other = other
        self.fast_path = origin.fast_path

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # ASGI's own maps
        """Pass one request on."""
        if scope["type"] != "lifespan" and scope["path"].startswith(PATH_PREFIXES):
            await self._origin(scope, receive, send)
        else:
            await self._other(scope, receive, send)


def _headers(match: re.Match[str], access: AccessLevel, coding: str = "") -> Headers:
    kind, kept = content_type_and_caching(match)
    return _described(kind, kept if access.is_cacheable else _PRIVATE, coding)


@cache
def _described(kind: str, cached: str, coding: str) -> Headers:
    """Return the headers of a kind of object; there are a dozen combinations."""
    is_playlist = kind == PLAYLIST_TYPE
    more = {"vary": "Accept-Encoding"} if is_playlist else {}
    if coding:
        more["content-encoding"] = coding
    # Chromium's own player reloads a playlist with a range as long as the text that it has, and
    # would get the beginning of a newer one, cut off in the middle of a line.
    return media_headers(kind, cached, more, has_ranges=not is_playlist)


def _file(
    file: OpenFile | None, match: re.Match[str], access: AccessLevel
) -> Representation | None:
    if file is None:
        return None
    return Representation(body=file, headers=_headers(match, access), tag=file.tag)


def _part(part: bytes | None, match: re.Match[str], access: AccessLevel) -> Representation | None:
    if part is None:
        return None
    return Representation(body=part, headers=_headers(match, access))


def _text(
    text: CachedPlaylist | None, match: re.Match[str], request: HttpRequest, access: AccessLevel
) -> Representation | None:
    if text is None:
        return None
    if request.accepts_gzip:
        # A strong tag must differ, since the bytes do.
        headers = _headers(match, access, "gzip")
        return Representation(body=text.compressed, headers=headers, tag=f'"{text.tag}-gz"')
    return Representation(body=text.body, headers=_headers(match, access), tag=f'"{text.tag}"')


def _directives_in(match: re.Match[str], query: str) -> Directives:
    """Parse the query of a live playlist; those of other objects are ignored."""
    live_playlist = match.re is LIVE and (match["playlist"] or match["variants"])
    return parse_directives(query) if live_playlist else Directives()


def _may_be_elsewhere(match: re.Match[str]) -> bool:
    """Return whether viewers may be redirected: not for playlists and lists of previews.

    Their URIs are relative to their own URL.
    """
    previews = match["preview"]
    return bool(match["media"] or match["poster"] or (previews and not previews.endswith(".vtt")))


def _method(request: HttpRequest) -> Method:
    return "HEAD" if request.method == "HEAD" else "GET"


def _numbers(name: str) -> tuple[int, int]:
    """Return the media sequence number and the index in the name of a part."""
    sequence, index, _ = name.split(".")
    return int(sequence), int(index)


def _bad_request(error: BadDirective) -> HttpResponse:
    headers = {"content-type": "text/plain", "cache-control": _UNCACHED}
    return cross_origin_response(400, headers, f"{error}\n".encode())


def _try_again() -> HttpResponse:
    """Return the 503 of a request that cannot be served now, or not in time (6.2.5.2)."""
    return cross_origin_response(503, {"retry-after": "1", "cache-control": _UNCACHED})


def _failed() -> HttpResponse:
    return cross_origin_response(500, {"cache-control": _UNCACHED})


def _not_found() -> HttpResponse:
    # Never cached: the stream may start at any moment.
    headers = {"content-type": "text/plain", "cache-control": _UNCACHED}
    return cross_origin_response(404, headers, b"not found\n")


def _blocked() -> HttpResponse:
    headers = {"content-type": "text/plain", "cache-control": _PRIVATE}
    return cross_origin_response(451, headers, b"not available in your country\n")
