"""Case folding, so that every database searches and sorts texts alike."""

import unicodedata


def fold(text: str) -> str:
    """Return `text` case-folded and composed (Unicode NFC).

    Composed, because macOS types an accent as a character of its own and others do not.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
