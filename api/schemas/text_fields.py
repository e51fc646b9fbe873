"""What texts from outside must be like before they are kept."""

import unicodedata
from typing import Final

__all__ = [
    "MAX_DESCRIPTION",
    "MAX_TITLE",
    "Description",
    "Name",
    "OptionalTitle",
    "Title",
    "has_control_characters",
]

MAX_TITLE: Final = 255  # characters, not bytes
MAX_DESCRIPTION: Final = 10_000
# Control characters, halves of surrogate pairs, and the two separators that break lines.
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def has_control_characters(text: str) -> bool:
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
        if has_control_characters(text):
            raise ValueError("The title must not contain control characters.")
        if len(text) > MAX_TITLE:
            raise ValueError(f"The title may have at most {MAX_TITLE} characters.")
        return cls(text)


class Name(str):
    """A name of a label, a player, a project or a token: as a title, in words of its own."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "Name":
        """Return the name in what a client sent.

        Raises:
            ValueError: it is none; the text is for the client.
        """
        try:
            return cls(Title.parse(value))
        except ValueError as error:
            raise ValueError(str(error).replace("title", "name")) from None


class OptionalTitle(str):
    """A title, or the empty string where there is to be none of its own: null, "" or blanks."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "OptionalTitle":
        """Return the title in what a client sent.

        Raises:
            ValueError: it is none; the text is for the client.
        """
        if value is None or (isinstance(value, str) and not value.strip()):
            return cls()
        return cls(Title.parse(value))


class Description(str):
    """A description: several lines of any characters but other controls; it may be empty."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: object) -> "Description":
        """Return the description in what a client sent; null is the empty one.

        Raises:
            ValueError: it is none; the text is for the client.
        """
        if value is None:
            return cls()
        if not isinstance(value, str):
            raise ValueError("The description must be a string.")  # noqa: TRY004  # as above
        text = value.strip()
        if any(
            unicodedata.category(character) in {"Cc", "Cs"} and character not in "\n\r\t"
            for character in text
        ):
            raise ValueError("The description must not contain control characters.")
        if len(text) > MAX_DESCRIPTION:
            raise ValueError(f"The description may have at most {MAX_DESCRIPTION} characters.")
        return cls(text)
