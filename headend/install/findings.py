"""The text and JSON forms of what `headend doctor` found. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from api.operations.report import Finding
from headend.printable import printable

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_MARKS: Final = {"well": "ok  ", "tidy": "tidy", "act": "ACT "}


def needs_action(findings: Sequence[Finding]) -> bool:
    """Return whether an operator must act."""
    return any(each.verdict == "act" for each in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one line of JSON."""
    document = {"healthy": not needs_action(findings), "findings": list(findings)}
    return printable(msgspec.json.encode(document).decode())


def as_text(findings: Sequence[Finding]) -> str:
    """Return the findings as lines for a terminal; those that need an operator come last."""
    lines: list[str] = []
    for finding in sorted(findings, key=lambda finding: finding.verdict == "act"):
        lines.append(f"{_MARKS[finding.verdict]} {finding.topic}: {finding.text}")
        for item in finding.items:
            size = "" if item.bytes is None else f" {size_text(item.bytes)}"
            lines.append(f"       {item.path}{size} ({item.what})")
    return "\n".join(printable(line) for line in lines)  # names of files, words of servers


def size_text(size: int) -> str:
    """Format a number of bytes with a binary unit and one decimal."""
    shown = float(size)
    for unit in _UNITS[:-1]:
        if round(shown, 1) < 1024:
            return f"{shown:.1f} {unit}" if unit != "B" else f"{size} B"
        shown /= 1024
    return f"{shown:.1f} {_UNITS[-1]}"
