"""Derives titles from the names of uploaded files, and slugs from names and titles. Pure.

The name is untrusted text. It is shown, and never used as a path.
Source: RFC 7578, section 4.2 (form data), RFC 8187 (`filename*`).
"""

import re
import unicodedata
from typing import Final
from urllib.parse import unquote

from multipart import MultipartSegment

from api.schemas.text_fields import MAX_TITLE, has_control_characters
from media.accents import without_accents

_NAMELESS: Final = "video"
_EXTENSION: Final = re.compile(r"\.[0-9A-Za-z]{1,8}$")
# Some clients send it although RFC 7578 forbids it; then it is the complete name.
_EXTENDED: Final = re.compile(
    r";\s*filename\*\s*=\s*(?P<charset>utf-8|iso-8859-1)'[^']*'(?P<value>[^;\s]*)", re.IGNORECASE
)
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')


def file_name(part: MultipartSegment) -> str | None:
    """Return the file name of a form part; None if the part is not a file."""
    header = next((value for name, value in part.headerlist if name == "Content-Disposition"), "")
    # Quoted strings are skipped: they may contain text that looks like a parameter.
    extended = _EXTENDED.search(_QUOTED.sub('""', header))
    if extended is None:
        return part.filename
    return unquote(extended["value"], encoding=extended["charset"], errors="replace")


def _stem(name: str) -> str:
    """Return a file name without folders and extension, on one line."""
    last = re.split(r"[/\\]", name)[-1]
    line = "".join(" " if has_control_characters(character) else character for character in last)
    return _EXTENSION.sub("", " ".join(line.split())).strip()


def file_title(name: str) -> str:
    """Return a title made of a file name, or `video` if nothing is left of it."""
    text = _stem(name)[:MAX_TITLE].strip()
    seen = any(character.isprintable() and not character.isspace() for character in text)
    return text if seen else _NAMELESS


def file_slug(name: str) -> str:
    """Return the slug of a file name without its folders and extension."""
    return slug(_stem(name))


def slug(text: str) -> str:
    """Return a text in lower-case ASCII with hyphens, or `video` if nothing is left."""
    plain = unicodedata.normalize("NFKD", without_accents(text.casefold()))
    letters = plain.encode("ascii", "ignore").decode()
    return re.sub(r"[^0-9a-z]+", "-", letters).strip("-")[:MAX_TITLE].strip("-") or _NAMELESS
