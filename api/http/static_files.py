"""The static files of the pages: the player, its style sheet, the embed script.

They are built from `web/` and committed. Their public names contain a digest of the content
(`watch.3f2a….js`), so browsers may cache them for ever and fetch a new release at once. All are
held in memory, about 1.2 MB, together with the gzip of each that was requested.
"""

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from api.http.response import HttpRequest, HttpResponse, new_response, text_response

BUNDLE = Path(__file__).parents[1] / "static"

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".txt": "text/plain; charset=utf-8",
}
_DIGEST_CHARACTERS = 12  # 48 bits: enough to distinguish two releases of one file

FOREVER: Final = "public, max-age=31536000, immutable"
# Foreign pages embed this script by a name without a digest, so browsers have to revalidate it.
_FIVE_MINUTES: Final = "public, max-age=300"
# Read by people, who cannot know its digest.
_NOTICES: Final = "THIRD_PARTY.txt"


def public_name(name: str, body: bytes) -> str:
    """Return the name under which a file is served, from its built name and its content."""
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}.{_digest(body)}{dot}{suffix}"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGEST_CHARACTERS]


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """One file: `name` as built, `public` with its digest."""

    name: str
    public: str
    type: str
    tag: str
    body: bytes

    @classmethod
    def of(cls, name: str, body: bytes) -> "Asset":
        """Build an asset from its built name and its content."""
        return cls(
            name=name,
            public=public_name(name, body),
            type=_TYPES[Path(name).suffix],
            tag=f'"{_digest(body)}"',
            body=body,
        )


class Assets(msgspec.Struct, frozen=True):
    """All files of a bundle, by their built names and by their public names."""

    built: Mapping[str, Asset]
    public: Mapping[str, Asset]

    @classmethod
    def read(cls, folder: Path = BUNDLE) -> "Assets":
        """Read all files of a bundle.

        Raises:
            OSError: the folder does not exist or cannot be read; no page could play without it.
        """
        files = sorted(path for path in folder.iterdir() if path.suffix in _TYPES)
        assets = [Asset.of(path.name, path.read_bytes()) for path in files]
        return cls(
            {asset.name: asset for asset in assets},
            {asset.public: asset for asset in assets},
        )


class StaticFiles:
    """Answers requests for the files of a bundle."""

    def __init__(self, assets: Assets) -> None:
        self.assets = assets
        self._packed: dict[str, bytes] = {}  # by built name
        self._packing = asyncio.Lock()

    async def respond(self, name: str, request: HttpRequest) -> HttpResponse:
        """Return a file by its public name, or 404."""
        if asset := self.assets.public.get(name):
            return await self._respond(request, asset, FOREVER)
        if name == _NOTICES:
            return await self._respond(request, self.assets.built[name], _FIVE_MINUTES)
        return text_response(404, "not found")

    async def embed_script(self, request: HttpRequest) -> HttpResponse:
        """Return the script that replaces its own tag by an embedded player."""
        return await self._respond(request, self.assets.built["embed.js"], _FIVE_MINUTES)

    async def packed(self, asset: Asset) -> bytes:
        """Return the gzip of a file.

        It is made at its first request, so that a start does not wait for it: 30 ms of CPU for the
        player, 50 ms for all files.
        """
        if asset.name in self._packed:
            return self._packed[asset.name]
        async with self._packing:  # once, even if several requests come first
            if asset.name not in self._packed:
                pack = partial(gzip.compress, asset.body, 9, mtime=0)
                self._packed[asset.name] = await asyncio.to_thread(pack)
            return self._packed[asset.name]

    async def _respond(
        self, request: HttpRequest, asset: Asset, cache_control: str
    ) -> HttpResponse:
        headers = {
            "cache-control": cache_control,
            # Weak: the file and its gzip share it (RFC 9110, 8.8.3.3).
            "etag": f"W/{asset.tag}",
            "vary": "Accept-Encoding",
            "x-content-type-options": "nosniff",
            # Pages that isolate themselves (COEP) load nothing from elsewhere without this.
            "cross-origin-resource-policy": "cross-origin",
        }
        if request.has_current(asset.tag):
            return new_response(304, headers)
        headers["content-type"] = asset.type
        if request.accepts_gzip and len(packed := await self.packed(asset)) < len(asset.body):
            return new_response(200, {**headers, "content-encoding": "gzip"}, packed)
        return new_response(200, headers, asset.body)
