"""Requests for a part that will be listed soon wait for it, for as long as the viewer may have it.

Source: draft-pantos-hls-rfc8216bis, 6.2.5.2 (playlists) and 6.2.6 (parts).
"""

import logging
from collections.abc import Callable
from functools import partial

import msgspec

from api.http.response import HttpResponse, PendingResponse, respond
from api.origin.directives import BadDirective
from api.origin.media_request import MediaRequest, PartRequest, PlaylistRequest
from api.origin.refusals import FAILED, NOT_FOUND, TRY_AGAIN
from api.origin.representations import Representations
from api.origin.viewer import NOBODY
from api.origin.visibility import ViewerAccess, VisibilityCache
from delivery.edge.base import EdgeReader
from media.no_op import do_nothing

log = logging.getLogger(__name__)


class BlockingRequests:
    """Decides which requests wait, and answers them once they need not wait any more."""

    def __init__(
        self, edge: EdgeReader, visibility: VisibilityCache, representations: Representations
    ) -> None:
        self._edge = edge
        self._visibility = visibility
        self._representations = representations

    def pending(
        self, request: MediaRequest, address: str, decision: ViewerAccess
    ) -> PendingResponse | None:
        """Return a blocking response for a part that does not exist yet; None if it need not block.

        A playlist request blocks if its query says so, a part request if it is the next (6.2.6).

        Raises:
            BadDirective: the part is too far ahead.
        """
        if not isinstance(request, _BLOCKING) or (awaited := request.awaited) is None:
            return None
        timeline = self._edge.timeline(request.playlist)
        if timeline is None:
            return None
        if isinstance(request, PartRequest):
            if timeline.hint != request.name or self._edge.local_part(address) is not None:
                return None
        elif timeline.is_too_far(*awaited):
            raise BadDirective("_HLS_msn or _HLS_part is too far ahead")
        if timeline.has(*awaited):
            return None
        kept = msgspec.structs.replace(request, viewer=NOBODY)
        return _BlockingResponse(
            partial(self._edge.wait, request.playlist, *awaited),
            partial(self._visibility.confirm, request.hash, decision),
            partial(self._answer, kept, address, decision),
        )

    def _answer(
        self, request: PlaylistRequest | PartRequest, address: str, decision: ViewerAccess
    ) -> HttpResponse:
        """Return the response of a blocking request, whose access was confirmed."""
        timeline = self._edge.timeline(request.playlist)
        awaited = request.awaited
        if isinstance(request, PlaylistRequest) and (
            timeline is None or awaited is None or not timeline.has(*awaited)
        ):
            return TRY_AGAIN
        try:
            representation = self._representations.at_hand(request, address, decision.access)
        except OSError as error:
            log.error("object not served", extra={"reason": str(error)})  # noqa: TRY400  # the world's
            return TRY_AGAIN
        if representation is not None:
            return respond(request.http, representation)
        if isinstance(request, PartRequest) and timeline and timeline.hint == request.name:
            # Not in time, but it may still come, for instance after a restart of the engine.
            return TRY_AGAIN
        return NOT_FOUND


_BLOCKING = (PlaylistRequest, PartRequest)


class _BlockingResponse(PendingResponse):
    """The response to a request for a part that will be listed soon.

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
            response = self._make() if may_still else TRY_AGAIN
        except Exception:  # the per-request edge: other requests must not be affected
            log.exception("request failed")
            response = FAILED
        callback(response)
