"""The origin: playlists, init sections, segments, parts and posters below `/live` and `/videos`.

A viewer's way from target to bytes, in this order:

1. `media_request` parses the target, once.
2. `visibility` decides the viewer's access, for every request.
3. The answer is taken from what is ready: a part that is about to come (`blocking`), a redirect
   that is known (`redirects`), bytes at hand (`representations`).
4. What is not ready is looked for: a redirect, or else the object (`store_requests` asks the store,
   unless the object is known to miss).

Media names are never reused, so caches may keep them for ever; live playlists change every 2 s and
are fresh for 1 s. Restricted media are never cached.

Nearly all requests can be answered from memory: access was looked up within the last second, the
playlist is in memory, the segment in the page cache. `Origin.fast_path` answers these without a
task and without ASGI messages, for a server that can use it.
"""

import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from litestar.types import ASGIApp, Receive, Scope, Send

from api.http.application import FastPath
from api.http.client_address import RawHeaders
from api.http.open_file import FileOpener
from api.http.response import (
    PREFLIGHT,
    HttpRequest,
    HttpResponse,
    PendingResponse,
    Representation,
    respond,
    send_response,
    wait_for,
)
from api.http.static_files import Asset
from api.origin.absences import Absences
from api.origin.access import AccessLevel
from api.origin.blocking import BlockingRequests
from api.origin.directives import BadDirective
from api.origin.media_request import (
    DEFAULT_POSTER_LABEL,
    PATH_PREFIXES,
    MediaRequest,
    PartRequest,
    PlaylistRequest,
    PosterRequest,
    VariantsRequest,
    parse_media_request,
)
from api.origin.redirects import Method, Redirects
from api.origin.refusals import BLOCKED, NOT_ALLOWED, NOT_FOUND, TRY_AGAIN, bad_request
from api.origin.representations import Representations
from api.origin.store_requests import Question, StoreRequests
from api.origin.viewer import Viewer
from api.origin.visibility import ViewerAccess, VisibilityCache
from delivery.edge.base import EdgeReader
from storage.errors import StorageError
from storage.objects.store import MediaStore

log = logging.getLogger(__name__)

_Answer = HttpResponse | PendingResponse

# Requests whose answers the edge knows, once it is up to date on the stream.
_OF_THE_EDGE: Final = (VariantsRequest, PlaylistRequest, PartRequest)


class Origin:
    """Serves published media; an ASGI application.

    `card` is the default poster of streams and videos without one. With `redirects`, viewers are
    redirected for stored media, after their access was decided as for any other request. `absences`
    is for a store in which each look-up costs a request. `clock` is in seconds.
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
        self._edge = edge
        self._visibility = visibility
        self._redirects = redirects
        self._requests = StoreRequests(objects, edge, absences=absences, clock=clock)
        self._representations = Representations(
            objects, edge, self._requests, FileOpener(clock), card
        )
        self._blocking = BlockingRequests(edge, visibility, self._representations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        method = scope["method"]
        response: HttpResponse | None
        if method == "OPTIONS":
            response = PREFLIGHT
        elif method not in {"GET", "HEAD"}:
            response = NOT_ALLOWED
        else:
            query = scope["query_string"].decode("latin-1")
            answer = await self._of_target(method, scope["path"], query, Viewer.from_scope(scope))
            pending = isinstance(answer, PendingResponse)
            response = await wait_for(answer, receive) if pending else answer
        if response is not None:
            await send_response(response, method, send)

    async def _of_target(self, method: str, path: str, query: str, viewer: Viewer) -> _Answer:
        try:
            request = parse_media_request(method, path, query, viewer)
        except BadDirective as error:
            return bad_request(error)
        return NOT_FOUND if request is None else await self._answer(request)

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
        answer: _Answer | None = None
        try:
            request = parse_media_request(method, path, query, Viewer(peer, headers))
            if request is None:
                return None
            decision = self._visibility.cached(request.hash, request.viewer)
            if decision is not None:
                with suppress(OSError):  # it fails again below, and is logged there
                    answer = self._ready(request, decision)
        except BadDirective as error:
            return bad_request(error)
        return self._answer(request) if answer is None else answer

    def _ready(self, request: MediaRequest, decision: ViewerAccess) -> _Answer | None:
        """Return a response if it needs neither the disk nor the store.

        Raises:
            BadDirective: the request asks for a part that is too far ahead.
            OSError: the disk failed.
        """
        address = None if decision.shown is None else request.address(decision.shown)
        if address is None:
            return None
        pending = self._blocking.pending(request, address, decision)
        if pending is not None:
            return pending
        if self._redirects is not None and request.may_be_elsewhere:
            return self._redirects.known(_method(request.http), address, decision)
        representation = self._representations.at_hand(request, address, decision.access)
        return None if representation is None else respond(request.http, representation)

    async def _answer(self, request: MediaRequest) -> _Answer:
        """Return the response, which may have to be looked for."""
        try:
            decision = await self._visibility.lookup(
                request.hash, request.viewer, early=request.is_early
            )
            if not decision.access.is_visible:
                return BLOCKED if decision.access is AccessLevel.BLOCKED else NOT_FOUND
            if request.is_live and isinstance(request, _OF_THE_EDGE):
                await self._edge.catch_up(request.path[1:])
            ready = self._ready(request, decision)
            return await self._looked_for(request, decision) if ready is None else ready
        except BadDirective as error:
            return bad_request(error)
        except (StorageError, OSError) as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return TRY_AGAIN

    async def _looked_for(self, request: MediaRequest, decision: ViewerAccess) -> HttpResponse:
        """Return the response with an object that is not ready.

        Raises:
            StorageError, OSError: the store or the disk failed.
        """
        question = await self._requests.question(request, decision)
        redirect = await self._redirect(request, decision, question)
        if redirect is not None:
            self._requests.note(question, is_there=True)
            return redirect
        representation = await self._find(request, decision, question)
        if representation is None and isinstance(request, PosterRequest):
            representation = await self._other_poster(request, decision)
        if representation is None:
            return TRY_AGAIN if question.is_crowded else NOT_FOUND
        return respond(request.http, representation)

    async def _redirect(
        self, request: MediaRequest, decision: ViewerAccess, question: Question
    ) -> HttpResponse | None:
        """Return the redirect of a visible object; None if it is served here.

        Raises:
            StorageError: the store does not answer.
        """
        address = None if decision.shown is None else request.address(decision.shown)
        if self._redirects is None or address is None or not request.may_be_elsewhere:
            return None
        if not question.may_ask:
            return self._redirects.known(_method(request.http), address, decision)
        return await self._redirects.find(_method(request.http), address, decision)

    async def _find(
        self, request: MediaRequest, decision: ViewerAccess, question: Question
    ) -> Representation | None:
        """Return an object that is served here.

        Raises:
            StorageError, OSError: the store or the disk failed.
        """
        address = None if decision.shown is None else request.address(decision.shown)
        if address is None:
            return None
        # With redirects, or for another poster, nobody has looked yet what is at hand.
        found = self._representations.at_hand(request, address, decision.access)
        if found is None:
            found = await self._representations.find(
                request, address, decision.access, may_ask=question.may_ask
            )
        self._requests.note(question, is_there=found is not None)
        return found

    async def _other_poster(
        self, request: PosterRequest, decision: ViewerAccess
    ) -> Representation | None:
        """Return the successor of a deleted poster, or the placeholder if there is none.

        Its owner may have chosen another one since the record was looked up.

        Raises:
            StorageError, OSError: the catalog, the store or the disk failed.
        """
        if decision.shown is not None and request.address(decision.shown) is not None:
            decision = await self._visibility.lookup(
                request.hash, request.viewer, early=True, anew=True
            )
            if not decision.access.is_visible:
                return None
            question = await self._requests.question(request, decision)
            representation = await self._find(request, decision, question)
            if representation is not None:
                return representation
        shown = decision.shown
        if request.label != DEFAULT_POSTER_LABEL or shown is None or not request.is_of_kind(shown):
            return None
        return self._representations.placeholder(request, decision.access)


class OriginFirst:
    """Passes requests for media to the origin and all others to another application.

    The origin comes before the other application's routing, which costs more for matching a few
    dozen routes and setting up exception handling than the origin for serving a playlist.
    """

    def __init__(self, origin: Origin, other: ASGIApp) -> None:
        self._origin = origin
        self._other = other
        self.fast_path: FastPath = origin.fast_path

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # ASGI's own maps
        """Pass one request on."""
        if scope["type"] != "lifespan" and scope["path"].startswith(PATH_PREFIXES):
            await self._origin(scope, receive, send)
        else:
            await self._other(scope, receive, send)


def _method(request: HttpRequest) -> Method:
    return "HEAD" if request.method == "HEAD" else "GET"
