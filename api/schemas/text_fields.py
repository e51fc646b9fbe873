"""Validation of texts in requests: titles, names and descriptions."""

import unicodedata
from typing import Any, ClassVar, Final, Self

MAX_TITLE: Final = 255  # characters, not bytes
MAX_DESCRIPTION: Final = 10_000
# Control characters, halves of surrogate pairs, and the two separators that break lines.
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def has_control_characters(text: str) -> bool:
    """Return True if a text has characters that no single line may contain."""
    return any(unicodedata.category(character) in _CONTROLS for character in text)


class TextField(str):
    """A text that validates itself; `schema` describes what it accepts (JSON Schema)."""

    __slots__ = ()
    schema: ClassVar[dict[str, Any]] = {}  # Any: JSON

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate the text in a request.

        Raises:
            ValueError: it is invalid; the message is for the client.
        """
        raise NotImplementedError


class Title(TextField):
    """A title: trimmed, visible, without control characters, at most `MAX_TITLE` characters."""

    __slots__ = ()
    schema: ClassVar = {"type": "string", "minLength": 1, "maxLength": MAX_TITLE}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate the title in a request.

        Raises:
            ValueError: it is invalid; the message is for the client.
        """
        if value is None:
            raise ValueError("The title is required.")
        if not isinstance(value, str):
            raise ValueError("The title must be a string.")  # noqa: TRY004  # one fault, one error
        text = value.strip()
        # A title of zero-width characters would be invisible.
        if not any(character.isprintable() and not character.isspace() for character in text):
            raise ValueError("The title is required.")
        if has_control_characters(text):
            raise ValueError("The title must not contain control characters.")
        if len(text) > MAX_TITLE:
            raise ValueError(f"The title may have at most {MAX_TITLE} characters.")
        return cls(text)


class Name(TextField):
    """The name of a label, player, project or token: a title with its own error messages."""

    __slots__ = ()
    schema: ClassVar = Title.schema

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate the name in a request.

        Raises:
            ValueError: it is invalid; the message is for the client.
        """
        try:
            return cls(Title.parse(value))
        except ValueError as error:
            raise ValueError(str(error).replace("title", "name")) from None


class OptionalTitle(TextField):
    """A title, or the empty string for null, "" or blanks: no title of its own."""

    __slots__ = ()
    schema: ClassVar = {"type": ["string", "null"], "maxLength": MAX_TITLE}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate the title in a request.

        Raises:
            ValueError: it is invalid; the message is for the client.
        """
        if value is None or (isinstance(value, str) and not value.strip()):
            return cls()
        return cls(Title.parse(value))


class Description(TextField):
    """A description: any number of lines, no other control characters; it may be empty."""

    __slots__ = ()
    schema: ClassVar = {"type": ["string", "null"], "maxLength": MAX_DESCRIPTION}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate the description in a request; null is the empty one.

        Raises:
            ValueError: it is invalid; the message is for the client.
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
