"""Texts without accents, as people type them who do not have the keys. Pure.

Marks are removed where leaving them out is common: those of the Latin, Greek and Cyrillic scripts,
and the vowel signs of Hebrew and Arabic. Marks of other scripts make another letter (が is not か).
"""

import unicodedata
from typing import Final

# Blocks of the Unicode standard: Hebrew points, Arabic marks, combining diacritical marks and their
# supplements, half marks.
_MARKS: Final = (
    *range(0x0591, 0x05C8),
    *range(0x064B, 0x0660),
    0x0670,
    *range(0x0300, 0x0370),
    *range(0x1AB0, 0x1B00),
    *range(0x1DC0, 0x1E00),
    *range(0xFE20, 0xFE30),
)
# Lower-case letters without a decomposition of their own.
_LETTERS: Final = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l",
    "ħ": "h", "\N{LATIN SMALL LETTER DOTLESS I}": "i", "ŋ": "n",
}  # fmt: skip
_PLAIN: Final = str.maketrans(
    {
        **{chr(each): None for each in _MARKS if unicodedata.combining(chr(each))},
        **_LETTERS,
    }
)


def without_accents(text: str) -> str:
    """Return a case-folded text without accents, composed (Unicode NFC)."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).translate(_PLAIN))
