"""`/slates/{owner}/{name}.jpg`: the slates that streams show while they are off air.

Public, since viewers of the stream see them anyway. The picture at an address never changes, so
caches may keep it for ever.
"""

import logging
import re
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
from storage.errors import StorageError
from storage.objects.addresses import slate_picture
from storage.objects.base import ObjectMissing, Objects

__all__ = ["slate_image_handlers"]

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


async def _respond(objects: Objects, request: HttpRequest, path: str) -> HttpResponse:
    match = _ADDRESS.fullmatch(path)
    if match is None:
        return cross_origin_response(404, _PLAIN, b"not found\n")
    tag = f'"{match["name"]}"'
    headers = {**_HEADERS, "ETag": tag}
    try:
        body = await objects.get(slate_picture(match["owner"], match["name"]))
    except ObjectMissing:
        return cross_origin_response(404, _PLAIN, b"not found\n")
    except StorageError as error:
        log.warning("picture not read", extra={"cause": str(error)})
        return cross_origin_response(503, {**_PLAIN, "Retry-After": "1"}, b"try again\n")
    if request.has_current(tag):
        return new_response(304, headers)
    return new_response(200, headers, body)


def slate_image_handlers(objects: Objects) -> PageHandlers:
    """Return the handlers of the slates in a store."""

    @asgi("/slates", is_mount=True, copy_scope=True)
    async def slates(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        request = HttpRequest.from_scope(scope)
        await send_page(await _respond(objects, request, scope["path"]), request, send)

    return [slates]
