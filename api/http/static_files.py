"""The files that browsers get as they are: the player, its style, the embed script.

They are built from `web/` and committed. Their public names carry a digest of the content
(`watch.3f2a….js`), so a browser may keep them for ever and a new release is fetched at once.
Each is held in memory, plain and gzipped: about 800 kB in all, read and packed once in 60 ms.
"""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["BUNDLE", "Asset", "Assets"]

BUNDLE = Path(__file__).parents[1] / "static"

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".txt": "text/plain; charset=utf-8",
}
_DIGEST_CHARACTERS = 12  # 48 bits; two releases of one file must differ, no more


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """One file: `name` as it is built, `public` with its digest, `packed` = gzip of `body`."""

    name: str
    public: str
    type: str
    tag: str
    body: bytes
    packed: bytes

    @classmethod
    def of(cls, name: str, body: bytes) -> "Asset":
        """Describe a file by its built name and its content."""
        stem, dot, suffix = name.rpartition(".")
        digest = hashlib.sha256(body).hexdigest()[:_DIGEST_CHARACTERS]
        return cls(
            name=name,
            public=f"{stem}.{digest}{dot}{suffix}",
            type=_TYPES[dot + suffix],
            tag=f'"{digest}"',
            body=body,
            packed=gzip.compress(body, 9, mtime=0),
        )


class Assets(msgspec.Struct, frozen=True):
    """All files of a bundle, by their built names and by their public ones."""

    built: Mapping[str, Asset]
    public: Mapping[str, Asset]

    @classmethod
    def read(cls, folder: Path = BUNDLE) -> "Assets":
        """Read a bundle whole. A folder without one raises `OSError`, since no page would play."""
        files = sorted(path for path in folder.iterdir() if path.suffix in _TYPES)
        assets = [Asset.of(path.name, path.read_bytes()) for path in files]
        return cls(
            {asset.name: asset for asset in assets},
            {asset.public: asset for asset in assets},
        )
