"""Fills the tables of `docs/sandbox.md` with the system calls of `transcode.sandbox`.

    .venv/bin/python scripts/sandbox_page.py

The prose of the page is written by hand. A table between `<!-- calls RULE ... -->` and
`<!-- end -->` lists the calls with these rules (names of `Rule`). A test fails if the page and the
code differ.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from transcode.sandbox.system_calls import SYSTEM_CALLS, Rule, SystemCall

PAGE: Final = Path(__file__).parents[1] / "docs" / "sandbox.md"

_TABLE: Final = re.compile(r"(<!-- calls ([A-Z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return the page with updated tables.

    Raises:
        ValueError: a rule has no table, or more than one.
    """
    tables = [name for match in _TABLE.finditer(page) for name in match[2].split()]
    if sorted(tables) != sorted(rule.name for rule in Rule):
        raise ValueError(f"the page has tables for {tables}")

    def table(match: re.Match[str]) -> str:
        rules = [Rule[name] for name in match[2].split()]
        calls = [call for call in SYSTEM_CALLS.values() if call.rule in rules]
        return f"{match[1]}{_table(calls)}{match[3]}"

    return _TABLE.sub(table, page)


def _table(calls: Sequence[SystemCall]) -> str:
    rows = [("call", "x86_64", "aarch64", "why"), ("---", "--:", "--:", "---")]
    for call in calls:
        first, second = ("" if number < 0 else str(number) for number in call.numbers)
        rows.append((f"`{call.name}`", first, second, call.why))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
