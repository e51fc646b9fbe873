"""Fills the tables of `docs/events.md` with the kinds of events in `storage.catalog.events.kinds`.

    .venv/bin/python scripts/events_page.py

The prose of the page is written by hand. A table between `<!-- events SECTION -->` and
`<!-- end -->` lists the kinds of that section (a key of `EVENTS`, or `states`). A test fails if the
page and the code differ.
"""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from media.stream_events import OwnerEvent
from storage.catalog.events.kinds import EVENTS, STATES, VideoEvent

PAGE: Final = Path(__file__).parents[1] / "docs" / "events.md"

_TABLE: Final = re.compile(r"(<!-- events ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_STATES: Final = "states"


def filled(page: str) -> str:
    """Return the page with updated tables.

    Raises:
        ValueError: a section has no table, or more than one.
    """
    tables = [match[2] for match in _TABLE.finditer(page)]
    if sorted(tables) != sorted([*EVENTS, _STATES]):
        raise ValueError(f"the page has tables for {tables}")

    def table(match: re.Match[str]) -> str:
        section = match[2]
        rows = _states() if section == _STATES else _events(EVENTS[section])
        return f"{match[1]}{_text(rows)}{match[3]}"

    return _TABLE.sub(table, page)


def _events(kinds: Iterable[type[OwnerEvent]]) -> Iterable[tuple[str, ...]]:
    yield "type", "facts", "broadcast", "when"
    for kind in kinds:
        broadcast = "yes" if kind.is_broadcast else ""
        yield f"`{kind.stored_kind()}`", _facts(kind), broadcast, _when(kind)


def _states() -> Iterable[tuple[str, ...]]:
    yield "state of a", "with", "when"
    for kind in STATES:
        yield "video" if issubclass(kind, VideoEvent) else "stream", _facts(kind), _when(kind)


def _facts(kind: type[OwnerEvent]) -> str:
    facts = [_fact(each.encode_name, each.type) for each in msgspec.structs.fields(kind)]
    are_short = all(" " not in fact for fact in facts)
    return (", " if are_short else "; ").join(facts)


def _fact(name: str, type_: Any) -> str:  # Any: an annotation has no type of its own
    metas = [each for each in get_args(type_) if isinstance(each, msgspec.Meta)]
    says = metas[0].description if metas else None
    if not says:
        return f"`{name}`"
    return f"`{name}`, {says}" if says.startswith("if ") else f"`{name}`: {says}"


def _when(kind: type[OwnerEvent]) -> str:
    return " ".join(str(inspect.getdoc(kind)).split())


def _text(rows: Iterable[tuple[str, ...]]) -> str:
    head, *others = rows
    lines = [head, tuple("---" for _ in head), *others]
    return "".join(re.sub(r" {2,}", " ", f"| {' | '.join(line)} |\n") for line in lines)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
