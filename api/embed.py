"""The pages that play: `/watch/{hash}`, `/embed/{hash}`, `/embed.js` and their files.

Pages carry no cookie, no inline script and no inline style; everything that an owner typed is
escaped where a page is filled, with no way around it. A stream that has never been live has its
pages already, and they wait; one that its owner took back has none.
"""

import html
import re
from pathlib import Path
from string import Template
from typing import Literal
from urllib.parse import urlsplit

from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from api.addresses import Addresses
from api.assets import Asset, Assets
from api.ports import OwnerCheck, Showcase
from api.replies import Asked, Reply, answer, plain

__all__ = ["pages"]

Kind = Literal["watch", "embed"]

_TEMPLATES = Path(__file__).parent / "templates"
_FOREVER = "public, max-age=31536000, immutable"
# Strangers' pages name it without a digest, so it has to be asked for again now and then.
_A_WHILE = "public, max-age=300"
# For people, who will not know their digest.
_NOTICES = "THIRD_PARTY.txt"
_ONE_PART = re.compile(r"/([^/]+)/?")


def pages(showcase: Showcase, addresses: Addresses, is_owner: OwnerCheck) -> list[ASGIRouteHandler]:
    """Return the handlers of all pages and their files."""
    shelf = _Shelf(Assets.read())
    rack = _Pages(shelf.assets, addresses, showcase, is_owner)

    @asgi("/watch", is_mount=True, copy_scope=True)
    async def watch(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        await answer(await rack.reply("watch", _part(scope), asked), asked, send)

    @asgi("/embed", is_mount=True, copy_scope=True)
    async def embed(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        await answer(await rack.reply("embed", _part(scope), asked), asked, send)

    @asgi("/embed.js", copy_scope=True)
    async def embed_script(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        await answer(shelf.embed_script(asked), asked, send)

    @asgi("/static", is_mount=True, copy_scope=True)
    async def static(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        asked = Asked.of(scope)
        await answer(shelf.reply(_part(scope), asked), asked, send)

    return [watch, embed, embed_script, static]


class _Pages:
    """Answers for one kind of page and one hash."""

    def __init__(
        self, assets: Assets, addresses: Addresses, showcase: Showcase, is_owner: OwnerCheck
    ) -> None:
        self._addresses = addresses
        self._showcase = showcase
        self._is_owner = is_owner
        parts = {name: _text(name) for name in ("player", "bar")}
        self._templates: dict[Kind, Template] = {
            "watch": Template(Template(_text("watch")).safe_substitute(parts)),
            "embed": Template(Template(_text("embed")).safe_substitute(parts)),
        }
        base = urlsplit(addresses.http).path
        self._files = {
            "icon": f"{base}/static/{assets.built['icon.svg'].public}",
            "style": f"{base}/static/{assets.built['watch.css'].public}",
            "script": f"{base}/static/{assets.built['watch.js'].public}",
        }
        self._missing = _fill(Template(_text("missing")), **self._files)
        # A page that is opened under another name of this host (an address in the LAN) fetches
        # from where it came; only a playback address of its own is spelled out.
        own = addresses.playback == addresses.http
        self._playback = base if own else addresses.playback
        origin = "" if own else f" {_origin(addresses.playback)}"
        self._headers: dict[Kind, dict[str, str]] = {
            "watch": _headers(origin, ancestors="'none'"),
            "embed": _headers(origin, ancestors="*"),
        }

    async def reply(self, kind: Kind, hash_: str, asked: Asked) -> Reply:
        """Return the page of a stream, or the one that says that there is nothing."""
        plausible = hash_.isascii() and hash_.isalnum()
        shown = await self._showcase.shown(hash_) if plausible else None
        headers = self._headers[kind]
        if shown is not None and shown.hidden:
            # Seen by the owner alone: no cache in between may keep it for others.
            headers = headers | {"Cache-Control": "private, no-store"}
            if not await self._is_owner(asked.headers.get("authorization"), hash_):
                shown = None
        if shown is None:
            return Reply(status=404, headers=headers, body=self._missing)
        body = _fill(
            self._templates[kind],
            title=shown.title,
            description=shown.description,
            playlist=f"{self._playback}/live/{hash_}/index.m3u8",
            watch=self._addresses.watch(hash_),
            embed=self._addresses.embed(hash_),
            **self._files,
        )
        return Reply(status=200, headers=headers, body=body)


class _Shelf:
    """Answers for the files."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets

    def reply(self, name: str, asked: Asked) -> Reply:
        """Return a file by its public name."""
        if asset := self.assets.public.get(name):
            return _file(asset, _FOREVER, asked)
        if name == _NOTICES:
            return _file(self.assets.built[name], _A_WHILE, asked)
        return plain(404, "not found")

    def embed_script(self, asked: Asked) -> Reply:
        """Return the script that puts a frame where it stands."""
        return _file(self.assets.built["embed.js"], _A_WHILE, asked)


def _headers(origin: str, *, ancestors: str) -> dict[str, str]:
    """A page may run our files and fetch media, from here or from `origin`, and nothing else."""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": f"'self' data:{origin}",
        "media-src": f"'self' blob:{origin}",
        "connect-src": f"'self'{origin}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": ancestors,
    }
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(f"{key} {text}" for key, text in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "strict-origin-when-cross-origin",
        # A page names its files by digest, so an old page must not outlive them.
        "Cache-Control": "no-cache",
    }


def _file(asset: Asset, keep: str, asked: Asked) -> Reply:
    headers = {
        "Cache-Control": keep,
        "ETag": asset.tag,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        # Pages that isolate themselves (COEP) load nothing from elsewhere without this.
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    if asked.has(asset.tag):
        return Reply(status=304, headers=headers, body=b"")
    headers["Content-Type"] = asset.type
    if asked.accepts_gzip:
        headers["Content-Encoding"] = "gzip"
        return Reply(status=200, headers=headers, body=asset.packed)
    return Reply(status=200, headers=headers, body=asset.body)


def _part(scope: Scope) -> str:
    """Return the one part of the path that follows the mount, or "" where it is not one.

    The framework matches mounts by the letters they begin with, so `/watchtower` comes here too,
    and it adds a slash to what is left. Its raw handlers cannot have path parameters.
    """
    match = _ONE_PART.fullmatch(scope["path"])
    return match[1] if match else ""


def _text(template: str) -> str:
    return (_TEMPLATES / f"{template}.html").read_text(encoding="utf-8").strip()


def _fill(template: Template, **values: str) -> bytes:
    """Fill a template with values that are text, never markup."""
    escaped = {name: html.escape(text, quote=True) for name, text in values.items()}
    return template.substitute(escaped).encode()


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
