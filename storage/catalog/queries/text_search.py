"""Titles and names that contain what someone typed, whatever its case and accents.

Beside a column `title` or `name` there are two more, on every database: `_fold`, by which rows are
sorted and told apart, and `_plain`, in which a search looks, too. The latter is null for a text of
ASCII alone, which has no accents. Otherwise it is the folded text, a line break, and the same
without accents: an older version of Headend that edits a row leaves its `_plain` as it was, and the
first line shows that it is not that of the present text. `is_stale` finds such rows.
"""

from sqlalchemy import ColumnElement, LargeBinary, Table, cast, func, or_

from media.accents import without_accents
from storage.catalog.queries.casefold import fold

_BREAK = "\n"


def plain_form(folded: str) -> str | None:
    """Return what a `_plain` column holds for a folded text."""
    return None if folded.isascii() else f"{folded}{_BREAK}{without_accents(folded)}"


def searchable(column: str, text: str) -> dict[str, str | None]:
    """Return the values of the columns beside `column` for a text."""
    folded = fold(text)
    return {f"{column}_fold": folded, f"{column}_plain": plain_form(folded)}


def contains(table: Table, column: str, search: str) -> ColumnElement[bool]:
    """Return the condition that a text contains `search`, whatever the case and accents of both."""
    folded, plain = table.c[f"{column}_fold"], table.c[f"{column}_plain"]
    typed = fold(search)
    bare = without_accents(typed) or typed  # an accent alone
    found = [folded.contains(each, autoescape=True) for each in sorted({typed, bare})]
    return or_(*found, plain.contains(bare, autoescape=True) & _is_current(table, column))


def is_stale(table: Table, column: str, *, is_postgres: bool) -> ColumnElement[bool]:
    """Return the condition that a row's `_plain` column is not that of its text."""
    folded, plain = table.c[f"{column}_fold"], table.c[f"{column}_plain"]
    size = func.octet_length(folded) if is_postgres else func.length(cast(folded, LargeBinary))
    is_missing = plain.is_(None) & (size != func.length(folded))
    return is_missing | (plain.is_not(None) & ~_is_current(table, column))


def _is_current(table: Table, column: str) -> ColumnElement[bool]:
    folded, plain = table.c[f"{column}_fold"], table.c[f"{column}_plain"]
    return func.substr(plain, 1, func.length(folded) + 1) == folded + _BREAK
