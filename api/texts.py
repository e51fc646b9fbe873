"""What texts from outside must be like before they are kept."""

import unicodedata
from typing import Final

__all__ = ["MAX_TITLE", "Title", "has_controls"]

MAX_TITLE: Final = 255  # characters, not bytes
# Control characters, halves of surrogate pairs, and the two separators that break lines.
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def has_controls(text: str) -> bool:
    """Say whether a text holds what belongs into no line of text."""
    return any(unicodedata.category(character) in _CONTROLS for character in text)


class Title(str):
    """A title: any characters but controls, trimmed, something to be seen, at most `MAX_TITLE`."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "Title":
        """Return the title in what a client sent.

        Raises:
            ValueError: it is none; the text is for the client.
        """
        if value is None:
            raise ValueError("The title is required.")
        if not isinstance(value, str):
            raise ValueError("The title must be a string.")  # noqa: TRY004  # one fault, one error
        text = value.strip()
        # Zero-width characters alone would be a title that nobody sees.
        if not any(character.isprintable() and not character.isspace() for character in text):
            raise ValueError("The title is required.")
        if has_controls(text):
            raise ValueError("The title must not contain control characters.")
        if len(text) > MAX_TITLE:
            raise ValueError(f"The title may have at most {MAX_TITLE} characters.")
        return cls(text)
