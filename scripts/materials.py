"""Writes what a release consists of: a bill of materials, and the notices of others.

    .venv/bin/python -m scripts.materials headend.cdx.json THIRD_PARTY_NOTICES.txt

Both name the packages that `requirements/runtime.txt` pins and that are installed here, the
libraries that lie within them (FFmpeg and its encoders in the wheel of `av`), and the packages that
the pages are built of. They have no date but that of the release, and no random number: two of the
same release are equal. Source: CycloneDX 1.6 (ECMA-424).
"""

import datetime
import json
import os
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import av

from scripts.advisories import pins_in

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = ROOT / "api" / "static" / "THIRD_PARTY.txt"
# Builds the pages and is no part of them.
_BUILDERS: Final = frozenset({"esbuild"})
# The libraries in the wheel of `av` that bring the GPL with them (NOTICE).
_GPL: Final = frozenset({"libx264", "libx265"})
_LIBRARY: Final = re.compile(r"(?P<name>.+?)-[0-9a-f]{8}\.so\.(?P<version>[\d.]+)")
_LICENCE_FILES: Final = re.compile(
    r"(^|/)(LICEN[CS]E|COPYING|NOTICE|AUTHORS)[^/]*(?<!\.py)(?<!\.pyc)$", re.IGNORECASE
)
# Identifiers joined by AND, OR and WITH; not "BSD License" or "MIT License".
_EXPRESSION: Final = re.compile(
    r"\(*[A-Za-z0-9.+-]+\)*( (AND|OR|WITH) \(*[A-Za-z0-9.+-]+\)*)*", re.ASCII
)
_RULE: Final = "-" * 80
Part = dict[str, Any]  # Any: JSON
_INTRODUCTION: Final = """\
What others wrote, and runs with Headend: in its own environment of a package or an image, and as
what is fetched for the wheel. Headend's own licence is in LICENSE; what FFmpeg, x264 and x265 ask
of whoever passes on a package or an image is in NOTICE.
"""


def installed(requirements: str) -> list[metadata.Distribution]:
    """Return the pinned distributions that this platform and this Python need, by name."""
    found: dict[str, metadata.Distribution] = {}
    for pin in pins_in(requirements):
        try:
            distribution = metadata.distribution(pin.name)
        except metadata.PackageNotFoundError:  # for another platform or Python
            continue
        if distribution.version == pin.version:
            found[pin.name] = distribution
    return [found[name] for name in sorted(found)]


def licence_of(distribution: metadata.Distribution) -> str:
    """Return how a distribution names its licence: an expression, a name or classifiers."""
    for field in ("License-Expression", "License"):
        for stated in distribution.metadata.get_all(field) or ():
            return str(stated).strip().splitlines()[0]  # some have the whole text there
    classifiers = distribution.metadata.get_all("Classifier") or ()
    names = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")]
    return " AND ".join(names)


def bundled_libraries(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and version of each shared library that a wheel's tools put into a folder."""
    for path in sorted(folder.iterdir()):
        if match := _LIBRARY.fullmatch(path.name):
            yield match["name"], match["version"]


def bill(
    version: str,
    distributions: Iterable[metadata.Distribution],
    lock: str,
    time: datetime.datetime,
) -> str:
    """Return the bill of materials as JSON; `lock` is the text of `web/package-lock.json`."""
    product = _part("headend", version, f"pkg:pypi/headend@{version}", "Apache-2.0")
    product["type"] = "application"
    parts = [*map(_of_python, distributions), *_of_pages(lock)]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, parts])).urn,
        "version": 1,
        "metadata": {"timestamp": time.isoformat(), "component": product},
        "components": parts,
        "dependencies": [
            {"ref": product["bom-ref"], "dependsOn": [each["bom-ref"] for each in parts]}
        ],
    }
    return f"{json.dumps(document, indent=1)}\n"


def _part(name: str, version: str, purl: str, licence: str) -> Part:
    """Return a component; a licence that is no SPDX expression is a name."""
    part: Part = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    if purl.startswith("pkg:"):
        part["purl"] = purl
    if licence:
        is_expression = _EXPRESSION.fullmatch(licence) is not None
        named = {"expression": licence} if is_expression else {"license": {"name": licence}}
        part["licenses"] = [named]
    return part


def _of_python(distribution: metadata.Distribution) -> Part:
    name, version = distribution.name, distribution.version
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    part = _part(name, version, purl, licence_of(distribution))
    if name == "av":
        part["components"] = list(_of_ffmpeg())
    return part


def _of_ffmpeg() -> Iterator[Part]:
    yield _part("FFmpeg", av.ffmpeg_version_info, "av/ffmpeg", "GPL-3.0-or-later")
    for name, version in bundled_libraries(Path(av.__file__).parents[1] / "av.libs"):
        yield _part(name, version, f"av/{name}", "GPL-2.0-or-later" if name in _GPL else "")


def _of_pages(lock: str) -> Iterator[Part]:
    packages = json.loads(lock)["packages"]
    for name in sorted(packages[""]["dependencies"].keys() - _BUILDERS):
        package = packages[f"node_modules/{name}"]
        version = package["version"]
        yield _part(name, version, f"pkg:npm/{quote(name)}@{version}", package["license"])


def notices(distributions: Iterable[metadata.Distribution], pages: str) -> str:
    """Return the licences of all, with the texts that they come with."""
    parts = [_INTRODUCTION]
    for distribution in distributions:
        stated = licence_of(distribution) or "see the text"
        parts.append(f"{_RULE}\n\n{distribution.name} {distribution.version} ({stated})\n")
        files = sorted(
            (each for each in distribution.files or () if _LICENCE_FILES.search(str(each))), key=str
        )
        parts += [f"{Path(str(each)).name}:\n\n{each.read_text().strip()}\n" for each in files]
    return "\n".join((*parts, _RULE, "", pages))


def main() -> None:
    """Write both files; their names are the arguments."""
    materials, texts = map(Path, sys.argv[1:])
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    distributions = installed((ROOT / "requirements" / "runtime.txt").read_text())
    lock = (ROOT / "web" / "package-lock.json").read_text()
    materials.write_text(bill(version, distributions, lock, time))
    texts.write_text(notices(distributions, _PAGES.read_text()))


if __name__ == "__main__":
    main()
