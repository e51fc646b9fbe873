"""`/slates/{owner}/{name}.jpg`: the slates that streams show while they are off air.

Public, since viewers of the stream see them anyway. The picture at an address never changes, so
caches may keep it for ever.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from litestar import asgi
from litestar.types import Receive, Scope, Send

from api.http.response import (
    HttpRequest,
    HttpResponse,
    PageHandlers,
    cross_origin_response,
    new_response,
    send_page,
)
from api.origin.absences import Absences, Standing
from storage.errors import StorageError
from storage.objects.addresses import slate_picture
from storage.objects.base import ObjectMissing, Objects

log = logging.getLogger(__name__)

_ADDRESS: Final = re.compile(r"/(?P<owner>[ps]-[0-9A-Za-z]{12})/(?P<name>[0-9A-Za-z]{12})\.jpg/?")
_HEADERS: Final = {
    "Content-Type": "image/jpeg",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=31536000, immutable",
}
_PLAIN: Final = {"Content-Type": "text/plain; charset=utf-8"}
# Owners can be made up as well, so all slates are one group.
_ALL: Final = "slates"


FindNamed = Callable[[Sequence[str]], Awaitable[Collection[str]]]
"""Returns the addresses of the slates that some owners have set."""


class SlateLookups:
    """Bounds what made-up names cost a store in which each look-up costs a request.

    `find_named` returns the addresses of the slates of some owners. `clock` is in seconds.
    """

    def __init__(
        self,
        find_named: FindNamed,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_named = find_named
        self._clock = clock
        self._absences = Absences()

    async def may_exist(self, owner: str, address: str) -> bool:
        """Return whether to look a slate up; then call `note`.

        Raises:
            StorageError: the catalog does not answer.
        """
        match self._absences.ask(_ALL, address, self._clock()):
            case Standing.UNKNOWN:
                return True
            case Standing.CONFIRMED:
                return False
            case _:
                return address in await self._find_named([owner])

    def note(self, address: str, *, is_there: bool) -> None:
        """Remember whether there is a slate."""
        if is_there:
            self._absences.found(_ALL, address)
        else:
            self._absences.missed(address, self._clock())


async def _respond(
    objects: Objects,
    find_named: FindNamed,
    lookups: SlateLookups | None,
    request: HttpRequest,
    path: str,
) -> HttpResponse:
    match = _ADDRESS.fullmatch(path)
    if match is None:
        return cross_origin_response(404, _PLAIN, b"not found\n")
    tag = f'"{match["name"]}"'
    headers = {**_HEADERS, "ETag": tag}
    try:
        body = await _find(objects, lookups, match["owner"], match["name"])
        # That of a deleted stream or project is still there while it can be restored.
        address = slate_picture(match["owner"], match["name"])
        if body is not None and address not in await find_named([match["owner"]]):
            body = None
    except StorageError as error:
        log.warning("picture not read", extra={"cause": str(error)})
        return cross_origin_response(503, {**_PLAIN, "Retry-After": "1"}, b"try again\n")
    if body is None:
        return cross_origin_response(404, _PLAIN, b"not found\n")
    if request.has_current(tag):
        return new_response(304, headers)
    return new_response(200, headers, body)


async def _find(
    objects: Objects, lookups: SlateLookups | None, owner: str, name: str
) -> bytes | None:
    address = slate_picture(owner, name)
    if lookups is not None and not await lookups.may_exist(owner, address):
        return None
    try:
        body = await objects.get(address)
    except ObjectMissing:
        body = None
    if lookups is not None:
        lookups.note(address, is_there=body is not None)
    return body


def slate_image_handlers(
    objects: Objects, find_named: FindNamed, lookups: SlateLookups | None = None
) -> PageHandlers:
    """Return the handlers of the slates in a store; without `lookups` all are looked up."""

    @asgi("/slates", is_mount=True, copy_scope=True)
    async def slates(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        request = HttpRequest.from_scope(scope)
        response = await _respond(objects, find_named, lookups, request, scope["path"])
        await send_page(response, request, send)

    return [slates]
