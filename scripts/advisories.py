"""Lists the known vulnerabilities of the pinned packages, as reported by their registry.

    .venv/bin/python scripts/advisories.py requirements/runtime.txt requirements/dev.txt

The registry is pip's default; its JSON about a release lists `vulnerabilities` (from the OSV
database). The exit code is 1 if there is one that is not withdrawn. An unreachable registry is no
failure, but is reported, and so is a package that it does not know.
"""

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from pip._internal.models.index import PyPI

__all__ = ["Pin", "advisories_of", "examine", "pins_in", "report"]

_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
_SECONDS: Final = 20.0  # for one package
_AT_ONCE: Final = 4  # a public registry deserves few concurrent requests


class Pin(NamedTuple):
    """A package and its pinned version."""

    name: str
    version: str


Release = Mapping[str, Any]  # Any: JSON
Read = Callable[[Pin], Release]


def pins_in(requirements: str) -> list[Pin]:
    """Return the pins of a requirements file, in order."""
    return [Pin(*match.groups()) for match in _PIN.finditer(requirements)]


def advisories_of(release: Release) -> list[str]:
    """Return one line for each vulnerability of a release: names, fixed versions, summary."""
    return [
        " ".join(
            (
                ", ".join([each["id"], *each.get("aliases", [])]),
                f"(fixed in {', '.join(each.get('fixed_in') or ['no version'])}):",
                each.get("summary") or str(each.get("details", ""))[:120].replace("\n", " "),
            )
        )
        for each in release.get("vulnerabilities", [])
        if not each.get("withdrawn")
    ]


def read(pin: Pin) -> Release:
    """Fetch the registry's JSON about a release.

    Raises:
        OSError: it cannot be reached, or does not know the release (`HTTPError`).
        ValueError: the response is no JSON.
    """
    address = f"{PyPI.pypi_url}/{pin.name}/{pin.version}/json"
    with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310 # pip's own address
        return json.load(answer)


def examine(pins: Iterable[Pin], read: Read = read) -> dict[Pin, list[str] | None]:
    """Return the advisories of each pin; None if the registry cannot be reached."""

    def examine_one(pin: Pin) -> list[str] | None:
        try:
            return advisories_of(read(pin))
        except (OSError, ValueError):
            return None

    unique = sorted(set(pins))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(unique, pool.map(examine_one, unique), strict=True))


def report(advisories: Mapping[Pin, list[str] | None]) -> tuple[str, int]:
    """Return the text for the terminal, and the exit code."""
    lines = [
        f"{pin.name} {pin.version}: {text}"
        for pin, texts in advisories.items()
        for text in texts or ()
    ]
    unknown = [pin.name for pin, texts in advisories.items() if texts is None]
    code = 1 if lines else 0
    if unknown:
        shown = ", ".join(unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        lines.append(f"NOT CHECKED: {len(unknown)} of {len(advisories)} packages ({shown})")
    lines.append(
        f"{len(advisories) - len(unknown)} packages checked, {'' if code else 'no '}advisories"
    )
    return "\n".join(lines), code


if __name__ == "__main__":
    pinned = [pin for name in sys.argv[1:] for pin in pins_in(Path(name).read_text())]
    words, status = report(examine(pinned))
    sys.stdout.write(f"{words}\n")
    sys.exit(status)
