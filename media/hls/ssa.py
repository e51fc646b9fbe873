"""Converts SSA and ASS events, the decoders' output for all text subtitles, to WebVTT text. Pure.

Italic, bold and underlined text is kept; positions, colours, fonts, karaoke and drawings are not.
Source: libass' description of the format, "ASS File Format Guide" (override tags).
"""

import re
from collections.abc import Iterator
from typing import Final

from media.hls.webvtt import render_runs

# Ten times what a screen holds; longer text is not a subtitle.
MAX_CHARACTERS: Final = 2_000
_FIELDS: Final = 8  # before the text: number, layer, style, name, three margins, effect
_BLOCK: Final = re.compile(r"\{([^}]*)\}")
# Only whole tags: \bord, \blur, \iclip and \pos begin with the same letters.
_TAG: Final = re.compile(r"\\(?:([biu])([0-9]*)|(p)([0-9]+)|(r)[^\\]*)(?=\\|$|\()")
_BREAKS: Final = re.compile(r"\\[Nn]")


def cue_text(event: str) -> str:
    """Return an event's text as WebVTT cue text; "" if there is none.

    An event has its fields separated by commas, without times.
    """
    fields = event.split(",", _FIELDS)
    text = fields[_FIELDS] if len(fields) > _FIELDS else ""
    return render_runs(_runs(text[:MAX_CHARACTERS]))


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield runs of text with their styles."""
    styles: set[str] = set()
    drawing = False
    # Every other piece is the inside of a block of tags.
    for place, piece in enumerate(_BLOCK.split(text)):
        if place % 2:
            drawing = _apply_tags(piece, styles, drawing=drawing)
        elif piece and not drawing:
            plain = _BREAKS.sub("\n", piece).replace("\\h", " ")
            yield plain, "".join(sorted(styles))


def _apply_tags(block: str, styles: set[str], *, drawing: bool) -> bool:
    """Apply a block of tags to `styles`; return whether a drawing follows."""
    for style, on, scale, size, reset in _TAG.findall(block):
        if reset:
            styles.clear()
        elif scale:
            drawing = size.strip("0") != ""
        elif on.strip("0"):
            styles.add(style)
        else:
            styles.discard(style)
    return drawing
