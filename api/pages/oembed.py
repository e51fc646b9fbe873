"""`/oembed`: describes a watch page to sites on which its address is pasted.

JSON only. Access is decided as for the page itself, for the country of the requesting service, so
a restricted stream or video may have no preview there.
Source: oEmbed 1.0, sections 2.2 (request), 2.3 (response, errors) and 2.3.4.2 (video).
"""

import re
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
from litestar import asgi
from litestar.types import Receive, Scope, Send

from api.http.response import HttpRequest, HttpResponse, PageHandlers, json_response, send_page
from api.origin.access import AccessLevel
from api.origin.media_request import DEFAULT_POSTER_LABEL
from api.origin.viewer import Viewer
from api.origin.visibility import VisibilityCache
from api.schemas.embed_snippets import iframe
from api.schemas.urls import Addresses
from media.ladder import BOXES
from media.stream_keys import PublicHash
from storage.catalog.records.common import PublicRecord

_PAGE: Final = re.compile(r"/(?:watch|embed)/(?P<hash>[0-9A-Za-z]{12})/?")
_DEFAULT: Final = (1280, 720)  # while the size is unknown
_WIDTH: Final = 640  # pixels, unless the request has a maximum
_MOST: Final = 10_000
_MOST_FIELDS: Final = 20
_CACHED_BRIEFLY: Final = {"cache-control": "public, max-age=60"}
_UNCACHED: Final = {"cache-control": "private, no-store"}


class _Refused(Exception):
    """The request cannot be answered; the message is for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _OembedVideo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A response of type "video"; the thumbnail has all three fields or none."""

    version: str
    type: str
    provider_name: str
    provider_url: str
    title: str
    html: str
    width: int
    height: int
    thumbnail_url: str | None = None
    thumbnail_width: int | None = None
    thumbnail_height: int | None = None


def oembed_address(addresses: Addresses, hash_: PublicHash) -> str:
    """Return the oEmbed address of the watch page of a stream or video."""
    return f"{addresses.http}/oembed?format=json&url={quote(addresses.watch(hash_), safe='')}"


def oembed_handlers(visibility: VisibilityCache, addresses: Addresses) -> PageHandlers:
    """Return the handler of `/oembed`."""

    @asgi("/oembed", copy_scope=True)
    async def described(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        try:
            response = await _respond(visibility, addresses, scope)
        except _Refused as error:
            response = json_response(error.status, {"message": str(error)}, _UNCACHED)
        await send_page(response, HttpRequest.from_scope(scope), send)

    return [described]


async def _respond(visibility: VisibilityCache, addresses: Addresses, scope: Scope) -> HttpResponse:
    if scope["type"] != "http":
        raise _Refused(400, "only HTTP is answered")
    parameters = _read(scope["query_string"])
    if parameters.get("format", ["json"])[-1] != "json":
        raise _Refused(501, "the only format is json")
    if "url" not in parameters:
        raise _Refused(400, "url names the page to describe")
    most = _most(parameters, "maxwidth"), _most(parameters, "maxheight")
    hash_ = _hash_in(parameters["url"][-1], addresses)
    if hash_ is None:
        raise _Refused(404, "there is no such page here")
    decision = await visibility.lookup(hash_, Viewer.from_scope(scope), early=True)
    if decision.access is AccessLevel.BLOCKED:
        raise _Refused(451, "not available in your country")
    if decision.shown is None or not decision.access.is_visible:
        raise _Refused(404, "there is no such page here")
    headers = _CACHED_BRIEFLY if decision.access.is_cacheable else _UNCACHED
    return json_response(200, _video(addresses, decision.shown, most), headers)


def _read(query: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise _Refused(400, "there are too many parameters") from error


def _most(parameters: dict[str, list[str]], name: str) -> int:
    text = parameters.get(name, [str(_MOST)])[-1]
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise _Refused(400, f"{name} is a number of pixels")
    return min(int(text), _MOST)


def _hash_in(url: str, addresses: Addresses) -> str | None:
    """Return the hash in the address of one of our pages, with http or https."""
    try:
        page, base = urlsplit(url), urlsplit(addresses.http)
    except ValueError:
        return None
    if page.scheme not in {"http", "https"} or page.netloc.lower() != base.netloc.lower():
        return None
    if not page.path.startswith(base.path):
        return None
    match = _PAGE.fullmatch(page.path.removeprefix(base.path))
    return match["hash"] if match else None


def _video(addresses: Addresses, shown: PublicRecord, most: tuple[int, int]) -> _OembedVideo:
    has_size = shown.width > 0 and shown.height > 0
    shape = (shown.width, shown.height) if has_size else _DEFAULT
    size = _fitted(shape, min(most[0], _WIDTH) if most == (_MOST, _MOST) else most[0], most[1])
    video = _OembedVideo(
        version="1.0",
        type="video",
        provider_name="Headend",
        provider_url=addresses.http,
        title=shown.title,
        html=iframe(addresses, shown.hash, shown.title, size),
        width=size[0],
        height=size[1],
    )
    box = next((box for box in BOXES if box.label in shown.poster_labels[-1:]), None)
    if box is None or not has_size:
        return video
    wide, high = (box.width, box.height) if shape[0] >= shape[1] else (box.height, box.width)
    picture = _fitted(shape, min(wide, shape[0]), min(high, shape[1]))
    return msgspec.structs.replace(
        video,
        thumbnail_url=addresses.poster(shown.kind, shown.hash, DEFAULT_POSTER_LABEL),
        thumbnail_width=picture[0],
        thumbnail_height=picture[1],
    )


def _fitted(shape: tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """Return the largest size of this shape that fits, in whole pixels."""
    wide, high = shape
    if width * high <= height * wide:
        return width, max(1, round(width * high / wide))
    return max(1, round(height * wide / high)), height
