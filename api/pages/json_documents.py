"""`/json/projects/{key}.json` and `/json/videos/{hash}.json`: public metadata for players.

They follow the same access rules as the pages, and contain no secrets and no sequential numbers: a
project is named by its key.
"""

import re
from typing import Final

import msgspec
from litestar import asgi
from litestar.types import Receive, Scope, Send

from api.http.response import HttpRequest, HttpResponse, PageHandlers, json_response, send_page
from api.origin.access import AccessLevel
from api.origin.media_request import DEFAULT_POSTER_LABEL
from api.origin.viewer import Viewer
from api.origin.visibility import VisibilityCache
from api.ports import ProjectIndex
from api.schemas.urls import Addresses
from media.ticks import MICROSECONDS
from storage.catalog.records.common import PublicRecord

_ADDRESS: Final = re.compile(
    r"/(?:projects/(?P<key>[0-9A-Za-z_-]{1,64})|videos/(?P<hash>[0-9A-Za-z]{12}))\.json/?"
)
_CROSS_ORIGIN: Final = {"cross-origin-resource-policy": "cross-origin"}
_BRIEF: Final = "public, max-age=5"
_UNCACHED: Final = "private, no-store"


class _ProjectDocument(msgspec.Struct, frozen=True):
    """The public data of a project."""

    key: str
    name: str


class _VideoDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A video; `duration` in seconds, `playable` once its playlist exists."""

    hash: str
    title: str
    description: str
    playable: bool
    playlist: str
    duration: float
    width: int
    height: int
    poster: str
    posters: dict[str, str]
    previews: str | None
    embed: str
    watch: str


def document_handlers(
    visibility: VisibilityCache, projects: ProjectIndex, addresses: Addresses
) -> PageHandlers:
    """Return the handler of all paths below `/json`."""

    @asgi("/json", is_mount=True, copy_scope=True)
    async def document(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        request = HttpRequest.from_scope(scope)
        match = _ADDRESS.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None:
            response = _refusal(404, "there is no such document")
        elif match["key"]:
            response = await _project(projects, match["key"])
        else:
            viewer = Viewer.from_scope(scope)
            response = await _video(visibility, addresses, match["hash"], viewer)
        await send_page(response, request, send)

    return [document]


async def _project(projects: ProjectIndex, key: str) -> HttpResponse:
    record = await projects.find(key)
    # `find` accepts a number too, which is not public.
    if record is None or record.key != key:
        return _refusal(404, "there is no such project")
    return _document(_ProjectDocument(record.key, record.name), _BRIEF)


async def _video(
    visibility: VisibilityCache, addresses: Addresses, hash_: str, viewer: Viewer
) -> HttpResponse:
    decision = await visibility.lookup(hash_, viewer, early=True)
    shown = decision.shown
    if shown is None or shown.kind != "video":
        return _refusal(404, "there is no such video")
    if decision.access is AccessLevel.BLOCKED:
        return _refusal(451, "not available in your country")
    if not decision.access.is_visible:
        return _refusal(404, "there is no such video")
    return _document(
        _described(addresses, shown), _BRIEF if decision.access.is_cacheable else _UNCACHED
    )


def _described(addresses: Addresses, shown: PublicRecord) -> _VideoDocument:
    hash_ = shown.hash
    return _VideoDocument(
        hash=hash_,
        title=shown.title,
        description=shown.description,
        playable=shown.published and shown.media is not None,
        playlist=addresses.published_video_playlist(hash_),
        duration=round(shown.length_us / MICROSECONDS, 3),
        width=shown.width,
        height=shown.height,
        poster=addresses.video_poster(hash_, DEFAULT_POSTER_LABEL),
        posters={label: addresses.video_poster(hash_, label) for label in shown.poster_labels},
        previews=addresses.video_previews(hash_, shown.previews) if shown.previews else None,
        embed=addresses.embed(hash_),
        watch=addresses.watch(hash_),
    )


def _document(document: msgspec.Struct, cache_control: str) -> HttpResponse:
    return json_response(200, document, {**_CROSS_ORIGIN, "cache-control": cache_control})


def _refusal(status: int, message: str) -> HttpResponse:
    headers = {**_CROSS_ORIGIN, "cache-control": _UNCACHED}
    return json_response(status, {"message": message}, headers)
