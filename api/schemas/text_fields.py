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
    """A text that validates itself.

    `word` names it in messages, `schema` describes what it accepts (JSON Schema).
    """

    __slots__ = ()
    word: ClassVar[str]
    schema: ClassVar[dict[str, Any]]  # Any: JSON

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
    word = "title"
    schema: ClassVar = {"type": "string", "minLength": 1, "maxLength": MAX_TITLE}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate a title, as `TextField.parse`."""
        if value is None:
            raise ValueError(f"The {cls.word} is required.")
        if not isinstance(value, str):
            raise ValueError(f"The {cls.word} must be a string.")  # noqa: TRY004  # one fault, one error
        text = value.strip()
        # A title of zero-width characters would be invisible.
        if not any(character.isprintable() and not character.isspace() for character in text):
            raise ValueError(f"The {cls.word} is required.")
        if has_control_characters(text):
            raise ValueError(f"The {cls.word} must not contain control characters.")
        if len(text) > MAX_TITLE:
            raise ValueError(f"The {cls.word} may have at most {MAX_TITLE} characters.")
        return cls(text)


class Name(Title):
    """The name of a label, player, project or token: a title with its own error messages."""

    __slots__ = ()
    word = "name"


class OptionalTitle(Title):
    """A title, or the empty string for null, "" or blanks: no title of its own."""

    __slots__ = ()
    schema: ClassVar = {"type": ["string", "null"], "maxLength": MAX_TITLE}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate a title that may be empty, as `TextField.parse`."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return cls()
        return super().parse(value)


class Description(TextField):
    """A description: any number of lines, no other control characters; it may be empty."""

    __slots__ = ()
    word = "description"
    schema: ClassVar = {"type": ["string", "null"], "maxLength": MAX_DESCRIPTION}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Validate a description, as `TextField.parse`; null is the empty one."""
        if value is None:
            return cls()
        if not isinstance(value, str):
            raise ValueError(f"The {cls.word} must be a string.")  # noqa: TRY004  # as above
        text = value.strip()
        if any(
            unicodedata.category(character) in {"Cc", "Cs"} and character not in "\n\r\t"
            for character in text
        ):
            raise ValueError(f"The {cls.word} must not contain control characters.")
        if len(text) > MAX_DESCRIPTION:
            raise ValueError(f"The {cls.word} may have at most {MAX_DESCRIPTION} characters.")
        return cls(text)
