"""HTML that embeds a stream or a video on other pages: a frame, a script, a link. Pure."""

from fractions import Fraction
from html import escape
from typing import Final, Literal

from api.schemas.common import Embed
from api.schemas.urls import Addresses
from media.stream_keys import PublicHash

EmbedKind = Literal["stream", "video"]

# The permissions that the player needs from the embedding page.
_PERMISSIONS: Final = "autoplay; fullscreen; picture-in-picture; encrypted-media"
_USUAL: Final = Fraction(16, 9)  # before anything is known of the picture, and for sound
# Of what is wider or higher, a player as wide as its container shows a strip, or fills the window.
_WIDEST: Final = Fraction(4)


def embed_snippets(
    addresses: Addresses, hash_: PublicHash, title: str, kind: EmbedKind, size: tuple[int, int]
) -> Embed:
    """Return the three snippets, ready to paste; `title` is escaped.

    `size` is that of the picture, whose shape they have; 0 is unknown.
    """
    shape = _shape(size)
    script = {
        "src": addresses.embed_script(),
        f"data-{kind}": hash_,
        "data-title": title,
        "data-shape": shape,
    }
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in script.items())
    return Embed(
        iframe=iframe(addresses, hash_, title, shape),
        script=f"<script async{attributes}></script>",
        link=addresses.watch(hash_),
    )


def iframe(addresses: Addresses, hash_: PublicHash, title: str, size: str | tuple[int, int]) -> str:
    """Return an `<iframe>` of a size in pixels, or as wide as its container in a shape (16/9)."""
    if isinstance(size, str):
        shape = f'style="width:100%;aspect-ratio:{size};border:0"'
    else:
        shape = f'width="{size[0]}" height="{size[1]}" style="border:0"'
    return (
        f'<iframe src="{escape(addresses.embed(hash_))}" title="{escape(title)}" {shape}'
        f' loading="lazy" allow="{_PERMISSIONS}" allowfullscreen'
        ' referrerpolicy="strict-origin-when-cross-origin"></iframe>'
    )


def _shape(size: tuple[int, int]) -> str:
    """Return width and height in lowest terms, as CSS has an aspect ratio."""
    shape = Fraction(*size) if min(size) > 0 else _USUAL
    shape = min(max(shape, 1 / _WIDEST), _WIDEST)
    return f"{shape.numerator}/{shape.denominator}"
