"""Writes what a release consists of: a bill of materials, and the notices of others.

    .venv/bin/python -m scripts.materials headend.cdx.json THIRD_PARTY_NOTICES.txt

Both name the packages that `requirements/runtime.txt` pins and that are installed here, the libraries
that lie within them (FFmpeg and its encoders in the wheel of `av`), and the packages that the pages
are built of. They have no date but that of the release, and no random number: two of the same release
are equal. Source: CycloneDX 1.6 (ECMA-424).
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
from typing import Final

import av
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

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
_RULE: Final = "-" * 80
_INTRODUCTION: Final = """\
What others wrote, and runs with Headend: in its own environment of a package or an image, and as what
is fetched for the wheel. Headend's own licence is in LICENSE; what FFmpeg, x264 and x265 ask for of
whoever passes on a package or an image is in NOTICE.
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
    fields = distribution.metadata
    stated = fields.get("License-Expression") or fields.get("License") or ""
    if stated:
        return stated.strip().splitlines()[0]  # some have the whole text there
    classifiers = fields.get_all("Classifier") or ()
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
    licences = LicenseFactory()
    product = Component(
        name="headend",
        version=version,
        type=ComponentType.APPLICATION,
        licenses=[licences.make_with_expression("Apache-2.0")],
        purl=PackageURL("pypi", name="headend", version=version),
        bom_ref="headend",
    )
    document = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"headend {version} {lock}"),
        metadata=BomMetaData(component=product, timestamp=time),
    )
    components = [_of_python(each, licences) for each in distributions]
    components += _of_pages(lock, licences)
    document.components.update(components)
    document.register_dependency(product, components)
    text = JsonV1Dot6(document).output_as_string(indent=1)
    return f"{text}\n"


def _of_python(distribution: metadata.Distribution, licences: LicenseFactory) -> Component:
    name, stated = distribution.name, licence_of(distribution)
    purl = PackageURL("pypi", name=name.lower(), version=distribution.version)
    component = Component(
        name=name,
        version=distribution.version,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[licences.make_from_string(stated)] if stated else None,
    )
    if name == "av":
        component.components.update(_of_ffmpeg(licences))
    return component


def _of_ffmpeg(licences: LicenseFactory) -> Iterator[Component]:
    yield Component(
        name="FFmpeg",
        version=av.ffmpeg_version_info,
        bom_ref="av/ffmpeg",
        licenses=[licences.make_with_expression("GPL-3.0-or-later")],
    )
    for name, version in bundled_libraries(Path(av.__file__).parents[1] / "av.libs"):
        stated = [licences.make_with_expression("GPL-2.0-or-later")] if name in _GPL else None
        yield Component(name=name, version=version, bom_ref=f"av/{name}", licenses=stated)


def _of_pages(lock: str, licences: LicenseFactory) -> list[Component]:
    packages = json.loads(lock)["packages"]
    names = sorted(packages[""]["dependencies"].keys() - _BUILDERS)
    components: list[Component] = []
    for name in names:
        package = packages[f"node_modules/{name}"]
        scope, _, last = name.rpartition("/")
        purl = PackageURL("npm", scope or None, last, package["version"])
        components.append(
            Component(
                name=name,
                version=package["version"],
                purl=purl,
                bom_ref=purl.to_string(),
                licenses=[licences.make_from_string(package["license"])],
            )
        )
    return components


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
