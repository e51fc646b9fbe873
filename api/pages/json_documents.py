"""`/json/projects/{key}.json` and `/json/videos/{hash}.json`: what players need to know, for all.

Public like the pages, by the same rules of access; they hold no secret and nothing that could be
counted, so a project has its key there and not its number.
"""

import re
from typing import Final

import msgspec
from litestar import asgi
from litestar.types import Receive, Scope, Send

from api.http.page_response import Asked, Handlers, Reply, answer
from api.origin.access import Access
from api.origin.routes import CARD
from api.origin.visibility import Verdicts, Viewer
from api.ports import ProjectIndex
from api.schemas.urls import Addresses
from media.ticks import MICROSECONDS
from storage.catalog.records.common import Shown

__all__ = ["documents"]

_ADDRESS: Final = re.compile(
    r"/(?:projects/(?P<key>[0-9A-Za-z_-]{1,64})|videos/(?P<hash>[0-9A-Za-z]{12}))\.json/?"
)
_HEADERS: Final = {
    "Content-Type": "application/json",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
_BRIEF: Final = "public, max-age=5"
_UNKEPT: Final = "private, no-store"


class _Project(msgspec.Struct, frozen=True):
    """A project, as the public may know it."""

    key: str
    name: str


class _Video(msgspec.Struct, frozen=True, kw_only=True):
    """A video; `duration` in seconds, `playable` once its playlist is there, `previews` with it."""

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


def documents(verdicts: Verdicts, projects: ProjectIndex, addresses: Addresses) -> Handlers:
    """Return the handler of all that is below `/json`."""

    @asgi("/json", is_mount=True, copy_scope=True)
    async def document(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        match = _ADDRESS.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None:
            reply = _refusal(404, "there is no such document")
        elif match["key"]:
            reply = await _project(projects, match["key"])
        else:
            reply = await _video(verdicts, addresses, match["hash"], Viewer.of(scope))
        await answer(reply, asked, send)

    return [document]


async def _project(projects: ProjectIndex, key: str) -> Reply:
    record = await projects.find(key)
    # A number finds a project too, where a token is shown.
    if record is None or record.key != key:
        return _refusal(404, "there is no such project")
    return _reply(_Project(record.key, record.name), _BRIEF)


async def _video(verdicts: Verdicts, addresses: Addresses, hash_: str, viewer: Viewer) -> Reply:
    verdict = await verdicts.ask(hash_, viewer, early=True)
    shown = verdict.shown
    if shown is None or shown.kind != "video":
        return _refusal(404, "there is no such video")
    if verdict.access is Access.BLOCKED:
        return _refusal(451, "not available in your country")
    if not verdict.access.seen:
        return _refusal(404, "there is no such video")
    return _reply(_described(addresses, shown), _BRIEF if verdict.access.kept else _UNKEPT)


def _described(addresses: Addresses, shown: Shown) -> _Video:
    hash_ = shown.hash
    return _Video(
        hash=hash_,
        title=shown.title,
        description=shown.description,
        playable=shown.published and shown.media is not None,
        playlist=addresses.published_video_playlist(hash_),
        duration=round(shown.length_us / MICROSECONDS, 3),
        width=shown.width,
        height=shown.height,
        poster=addresses.video_poster(hash_, CARD),
        posters={label: addresses.video_poster(hash_, label) for label in shown.poster_labels},
        previews=addresses.video_previews(hash_, shown.previews) if shown.previews else None,
        embed=addresses.embed(hash_),
        watch=addresses.watch(hash_),
    )


def _reply(document: msgspec.Struct, kept: str) -> Reply:
    body = msgspec.json.encode(document)
    return Reply(status=200, headers=_HEADERS | {"Cache-Control": kept}, body=body)


def _refusal(status: int, sentence: str) -> Reply:
    body = msgspec.json.encode({"message": sentence})
    return Reply(status=status, headers=_HEADERS | {"Cache-Control": _UNKEPT}, body=body)
