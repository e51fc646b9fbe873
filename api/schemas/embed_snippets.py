"""HTML that embeds a stream or a video on other pages: a frame, a script, a link. Pure."""

from html import escape
from typing import Final, Literal

from api.schemas.common import Embed
from api.schemas.urls import Addresses
from media.stream_keys import PublicHash

__all__ = ["EmbedKind", "embed_snippets", "iframe"]

EmbedKind = Literal["stream", "video"]

# The permissions that the player needs from the embedding page.
_PERMISSIONS: Final = "autoplay; fullscreen; picture-in-picture; encrypted-media"
_FLUID: Final = "width:100%;aspect-ratio:16/9;border:0"


def embed_snippets(addresses: Addresses, hash_: PublicHash, title: str, kind: EmbedKind) -> Embed:
    """Return the three snippets, ready to paste; `title` is escaped."""
    return Embed(
        iframe=iframe(addresses, hash_, title),
        script=f'<script async src="{escape(addresses.embed_script())}"'
        f' data-{kind}="{escape(hash_)}"></script>',
        link=addresses.watch(hash_),
    )


def iframe(
    addresses: Addresses, hash_: PublicHash, title: str, size: tuple[int, int] | None = None
) -> str:
    """Return an `<iframe>` as wide as its container, or of a `size` in pixels."""
    if size is None:
        shape = f'style="{_FLUID}"'
    else:
        shape = f'width="{size[0]}" height="{size[1]}" style="border:0"'
    return (
        f'<iframe src="{escape(addresses.embed(hash_))}" title="{escape(title)}" {shape}'
        f' loading="lazy" allow="{_PERMISSIONS}" allowfullscreen'
        ' referrerpolicy="strict-origin-when-cross-origin"></iframe>'
    )
