"""Text that others chose, made fit for one line of a terminal or a log.

Control characters move a terminal's cursor, change its title or paste into it, line separators
forge lines, and directional marks show text in another order than it has. They are shown as
escapes, the same as in JSON, so that a JSON document keeps its meaning.
"""

import unicodedata
from typing import Final

# Controls, formats (directional marks, tags), halves of surrogate pairs, what is private or not
# assigned, and the two separators that break lines.
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Persian and Indic words and many emoji need them, and they reorder nothing.
_JOINERS: Final = frozenset("\u200c\u200d")


def printable(text: str) -> str:
    """Return the text with everything escaped that is not to be seen, line breaks included."""
    if text.isprintable():
        return text
    return "".join(_escape(each) if _is_escaped(each) else each for each in text)


def _is_escaped(character: str) -> bool:
    return unicodedata.category(character) in _ESCAPED and character not in _JOINERS


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
