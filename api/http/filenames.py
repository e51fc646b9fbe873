"""What the name of an uploaded file says: a title, and a slug. Pure.

The name is a stranger's text. It is shown and never used as a path.
Source: RFC 7578, section 4.2 (form data), RFC 8187 (`filename*`).
"""

import re
import unicodedata
from typing import Final
from urllib.parse import unquote

from multipart import MultipartSegment

from api.schemas.text_fields import MAX_TITLE, has_control_characters

__all__ = ["file_name", "file_title", "slug"]

_NAMELESS: Final = "video"
_EXTENSION: Final = re.compile(r"\.[0-9A-Za-z]{1,8}$")
# Some clients write it although RFC 7578 tells them not to; then it is the name that is whole.
_EXTENDED: Final = re.compile(
    r";\s*filename\*\s*=\s*(?P<charset>utf-8|iso-8859-1)'[^']*'(?P<value>[^;\s]*)", re.IGNORECASE
)
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')
# Letters that no decomposition turns into plain ones.
_PLAIN: Final = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l",
        "ħ": "h", "\N{LATIN SMALL LETTER DOTLESS I}": "i", "ŋ": "n",
    }
)  # fmt: skip


def file_name(part: MultipartSegment) -> str | None:
    """Return the file's name that a part of a form carries; None where it is no file."""
    header = next((value for name, value in part.headerlist if name == "Content-Disposition"), "")
    # What stands between quotes is text, whatever it looks like.
    extended = _EXTENDED.search(_QUOTED.sub('""', header))
    if extended is None:
        return part.filename
    return unquote(extended["value"], encoding=extended["charset"], errors="replace")


def _stem(name: str) -> str:
    """Return a file's name without folders and extension, in one line."""
    last = re.split(r"[/\\]", name)[-1]
    line = "".join(" " if has_control_characters(character) else character for character in last)
    return _EXTENSION.sub("", " ".join(line.split())).strip()


def file_title(name: str) -> str:
    """Return the title that a file's name makes; `video` when nothing is left of it."""
    text = _stem(name)[:MAX_TITLE].strip()
    seen = any(character.isprintable() and not character.isspace() for character in text)
    return text if seen else _NAMELESS


def slug(name: str) -> str:
    """Return a file's name in lower-case ASCII with hyphens; `video` when nothing is left of it."""
    plain = unicodedata.normalize("NFKD", _stem(name).casefold().translate(_PLAIN))
    letters = plain.encode("ascii", "ignore").decode()
    return re.sub(r"[^0-9a-z]+", "-", letters).strip("-")[:MAX_TITLE].strip("-") or _NAMELESS
