"""What a look at an installation found, and how that is told: pure values and text."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

__all__ = ["Finding", "Thing", "as_json", "as_text", "needs_someone", "size_text"]

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_MARKS: Final = {"well": "ok  ", "tidy": "tidy", "act": "ACT "}


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """Something found: a path below the data folder, with its bytes where they are known."""

    path: str
    what: str
    bytes: int | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence about one topic.

    `verdict` is `well`, `tidy` (what goes by itself, or with `--clean`) or `act` (it needs a
    person).
    """

    topic: str
    verdict: Literal["well", "tidy", "act"]
    text: str
    things: tuple[Thing, ...] = ()


def needs_someone(findings: Sequence[Finding]) -> bool:
    """Say whether a person must do something."""
    return any(each.verdict == "act" for each in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one line of JSON."""
    told = {"healthy": not needs_someone(findings), "findings": list(findings)}
    return msgspec.json.encode(told).decode()


def as_text(findings: Sequence[Finding]) -> str:
    """Return the findings as lines for a terminal, what needs a person last."""
    lines: list[str] = []
    for each in sorted(findings, key=lambda found: found.verdict == "act"):
        lines.append(f"{_MARKS[each.verdict]} {each.topic}: {each.text}")
        for thing in each.things:
            size = "" if thing.bytes is None else f" {size_text(thing.bytes)}"
            lines.append(f"       {thing.path}{size} ({thing.what})")
    return "\n".join(lines)


def size_text(size: int) -> str:
    """Return bytes as people read them, with one decimal."""
    shown = float(size)
    for unit in _UNITS[:-1]:
        if shown < 1024:
            return f"{shown:.1f} {unit}" if unit != "B" else f"{size} B"
        shown /= 1024
    return f"{shown:.1f} {_UNITS[-1]}"
