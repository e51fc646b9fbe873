"""Fills the tables of `docs/settings.md` with the defaults of `headend settings --json`.

    .venv/bin/python scripts/settings_page.py

The prose of the page is written by hand. A table between `<!-- settings NAME -->` and
`<!-- end -->` lists the settings whose names begin with `NAME.` (for `general`: those without a
section). A test fails if the page and the code differ.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headend.config.section import Setting, explain
from headend.config.settings import ServiceSettings

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"

_GENERAL: Final = "general"
_TABLE: Final = re.compile(r"(<!-- settings (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SIZES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def defaults() -> list[Setting]:
    """Return every setting with its default, in the order of `headend settings`."""
    return explain(ServiceSettings(), {})


def filled(page: str, settings: Sequence[Setting]) -> str:
    """Return the page with updated tables.

    Raises:
        ValueError: a section has no table, or more than one.
    """
    wanted = sorted({_section(setting) for setting in settings})
    actual = sorted(match[2] for match in _TABLE.finditer(page))
    if actual != wanted:
        raise ValueError(f"the page has tables for {actual}, the settings are in {wanted}")

    def table(match: re.Match[str]) -> str:
        rows = [setting for setting in settings if _section(setting) == match[2]]
        return f"{match[1]}{_table(rows)}{match[3]}"

    return _TABLE.sub(table, page)


def _section(setting: Setting) -> str:
    return setting.name.partition(".")[0] if "." in setting.name else _GENERAL


def _table(settings: Sequence[Setting]) -> str:
    reasons = any(setting.reason for setting in settings)
    columns = ("setting", "default", "unit", "meaning", *(("why",) if reasons else ()))
    rows = [columns, ("---",) * len(columns)]
    for setting in settings:
        row = (f"`{setting.name}`", _value(setting), setting.unit, setting.description)
        rows.append((*row, setting.reason) if reasons else row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _value(setting: Setting) -> str:
    match setting.value:
        case "" | None:
            return "empty"
        case str() as text:
            return f"`{text}`"
        case bool() as on:
            return "`true`" if on else "`false`"
        case float() as number:
            return f"{number:g}"
        case int() as number if number and setting.unit == "bytes":
            size, name = next((pair for pair in _SIZES if number % pair[0] == 0), (1, ""))
            return f"{number} ({number // size} {name})" if name else f"{number}"
        case value:
            return f"{value}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), defaults()))
