"""The pages that play: `/watch/{hash}`, `/embed/{hash}`, `/embed.js` and their static files.

Pages have no cookies, no inline scripts and no inline styles; all values are escaped when a
template is filled. A stream or video that does not play yet has its page, which waits for it; an
unpublished one has none (404), and a blocked country gets a page that explains it (451).
"""

import html
import re
from pathlib import Path
from string import Template
from typing import Final, Literal
from urllib.parse import urlsplit

from litestar import asgi
from litestar.types import Receive, Scope, Send

from api.http.response import HttpRequest, HttpResponse, PageHandlers, new_response, send_page
from api.http.static_files import Assets, StaticFiles
from api.origin.access import AccessLevel
from api.origin.media_request import DEFAULT_POSTER_LABEL
from api.origin.viewer import Viewer
from api.origin.visibility import ViewerAccess, VisibilityCache
from api.pages.oembed import oembed_address
from api.schemas.urls import Addresses
from storage.catalog.records.common import PlayerOptions, PublicRecord

PageKind = Literal["watch", "embed"]

_TEMPLATES: Final = Path(__file__).parent / "templates"
_PRIVATE: Final = {"Cache-Control": "private, no-store"}
_UNCACHED: Final = {"Cache-Control": "no-store"}
_ONE_PART: Final = re.compile(r"/([^/]+)/?")
_COLOR: Final = re.compile(r"#[0-9a-fA-F]{6}")
# Streams start at once, and browsers block autoplay with sound.
_OF_STREAMS: Final = PlayerOptions(autoplay=True, muted=True)
_OF_VIDEOS: Final = PlayerOptions()
_MESSAGES: Final = {"stream": "Looking for the stream…", "video": "Loading the video…"}


def page_handlers(
    visibility: VisibilityCache,
    addresses: Addresses,
    *,
    latency: str = "low",
    media_origin: str = "",
) -> PageHandlers:
    """Return the handlers of all pages and static files.

    `latency` is that of streams for which none was set. `media_origin` is where viewers are
    redirected for media; "": nowhere.
    """
    files = StaticFiles(Assets.read())
    renderer = _PageRenderer(files.assets, addresses, visibility, latency, media_origin)

    @asgi("/watch", is_mount=True, copy_scope=True)
    async def watch(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send_page(await renderer.respond("watch", scope), HttpRequest.from_scope(scope), send)

    @asgi("/embed", is_mount=True, copy_scope=True)
    async def embed(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send_page(await renderer.respond("embed", scope), HttpRequest.from_scope(scope), send)

    @asgi("/embed.js", copy_scope=True)
    async def embed_script(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        request = HttpRequest.from_scope(scope)
        await send_page(await files.embed_script(request), request, send)

    @asgi("/static", is_mount=True, copy_scope=True)
    async def static(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        request = HttpRequest.from_scope(scope)
        await send_page(await files.respond(_part(scope), request), request, send)

    return [watch, embed, embed_script, static]


class _PageRenderer:
    """Renders the pages of streams and videos."""

    def __init__(
        self,
        assets: Assets,
        addresses: Addresses,
        visibility: VisibilityCache,
        latency: str,
        media_origin: str,
    ) -> None:
        self._addresses = addresses
        self._latency = latency
        self._visibility = visibility
        player = _text("player")
        self._templates: dict[PageKind, Template] = {
            "watch": Template(Template(_text("watch")).safe_substitute(player=player)),
            "embed": Template(Template(_text("embed")).safe_substitute(player=player)),
        }
        # A page opened under another name of this host (a LAN address) fetches media from there:
        # media addresses are relative unless there is a separate playback address.
        self._base = urlsplit(addresses.http).path
        is_same_origin = addresses.playback == addresses.http
        self._playback = self._base if is_same_origin else addresses.playback
        self._files = {
            "icon": f"{self._base}/static/{assets.built['icon.svg'].public}",
            "style": f"{self._base}/static/{assets.built['watch.css'].public}",
            "script": f"{self._base}/static/{assets.built['watch.js'].public}",
        }
        self._card = f"{addresses.http}/static/{assets.built['card.jpg'].public}"
        self._missing = _fill(Template(_text("missing")), **self._files)
        self._blocked = _fill(Template(_text("blocked")), **self._files)
        origins = ["" if is_same_origin else _origin(addresses.playback), media_origin]
        media_origins = "".join(f" {origin}" for origin in dict.fromkeys(origins) if origin)
        self._headers: dict[PageKind, dict[str, str]] = {
            "watch": _headers(media_origins, ancestors="'none'"),
            "embed": _headers(media_origins, ancestors="*"),
        }

    async def respond(self, kind: PageKind, scope: Scope) -> HttpResponse:
        """Return the page of a stream or video, or a page that explains why there is none."""
        headers = self._headers[kind]
        decision = await _lookup(self._visibility, _part(scope), scope)
        if decision.access is AccessLevel.BLOCKED:
            return new_response(451, headers | _PRIVATE, self._blocked)
        if decision.shown is None or not decision.access.is_visible:
            return new_response(404, headers | _UNCACHED, self._missing)
        if not decision.access.is_cacheable:
            # Visible to some viewers only: shared caches must not store it.
            headers = headers | _PRIVATE
        return new_response(200, headers, self._page(kind, decision.shown))

    def _page(self, kind: PageKind, shown: PublicRecord) -> bytes:
        hash_, addresses = shown.hash, self._addresses
        video = shown.kind == "video"
        options = shown.player or (_OF_VIDEOS if video else _OF_STREAMS)
        root = "videos" if video else "live"
        has_poster = video or bool(shown.poster_labels)
        color = options.color or ""
        behaviour = {
            "controls": options.controls,
            "autoplay": options.autoplay,
            "muted": options.muted,
            # A live stream has no beginning to return to.
            "loop": options.loop and video,
        }
        return _fill(
            self._templates[kind],
            kind=shown.kind,
            title=shown.title,
            description=shown.description,
            playlist=f"{self._playback}/{root}/{hash_}/index.m3u8",
            # A new poster has a new address: browsers keep the picture of an address for a minute.
            poster=f"{self._base}/{root}/{hash_}/poster/{DEFAULT_POSTER_LABEL}.jpg"
            f"{f'?{shown.posters}' if shown.posters else ''}"
            if has_poster
            else "",
            previews=f"{self._playback}/{root}/{hash_}/{shown.previews}/previews.vtt"
            if shown.previews
            else "",
            # Preview services cache images by address, so the card has its own address.
            image=addresses.poster(shown.kind, hash_, DEFAULT_POSTER_LABEL)
            if has_poster
            else self._card,
            behaviour=" ".join(name for name, wanted in behaviour.items() if wanted),
            color=color if _COLOR.fullmatch(color) else "",
            failed="true" if shown.failed else "false",
            latency="" if video else shown.latency or self._latency,
            message=_MESSAGES[shown.kind],
            width=str(shown.width or 1280),
            height=str(shown.height or 720),
            watch=addresses.watch(hash_),
            embed=addresses.embed(hash_),
            oembed=oembed_address(addresses, hash_),
            **self._files,
        )


async def _lookup(visibility: VisibilityCache, hash_: str, scope: Scope) -> ViewerAccess:
    if scope["type"] != "http" or not (hash_.isascii() and hash_.isalnum()):
        return ViewerAccess(AccessLevel.NONE, None)
    return await visibility.lookup(hash_, Viewer.from_scope(scope), early=True)


def _headers(origins: str, *, ancestors: str) -> dict[str, str]:
    """Return headers whose policy allows only our files, and media from here or `origins`."""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": f"'self' data:{origins}",
        # hls.js attaches subtitles to an empty `data:` track.
        "media-src": f"'self' blob: data:{origins}",
        "connect-src": f"'self'{origins}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": ancestors,
    }
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(f"{key} {text}" for key, text in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "strict-origin-when-cross-origin",
        # A page refers to its files by digest, so it must not be cached longer than they exist.
        "Cache-Control": "no-cache",
    }


def _part(scope: Scope) -> str:
    """Return the single path segment below the mount, or "" if it is not exactly one.

    Litestar matches mounts by prefix, so `/watchtower` arrives here too, and it adds a trailing
    slash. Its raw ASGI handlers cannot have path parameters.
    """
    match = _ONE_PART.fullmatch(scope["path"])
    return match[1] if match else ""


def _text(template: str) -> str:
    return (_TEMPLATES / f"{template}.html").read_text(encoding="utf-8").strip()


def _fill(template: Template, **values: str) -> bytes:
    """Fill a template with escaped values: they are text, never markup."""
    escaped = {name: html.escape(text, quote=True) for name, text in values.items()}
    return template.substitute(escaped).encode()


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
