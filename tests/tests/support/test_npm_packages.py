"""Node packages are installed once per lock file and npm version."""

from pathlib import Path

from tests.support.npm_packages import install_packages

# A fake npm, which counts its runs in a file.
NPM = """#!/bin/sh
echo x >> "$0.ran"
mkdir node_modules
cp package-lock.json node_modules/installed
"""


def test_packages_are_installed_once_until_the_lock_changes(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    calls: list[tuple[str, int]] = []
    for number, lock in enumerate(("one", "one", "other", "other")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "package-lock.json").write_text(lock)
        install_packages(folder, [str(npm)], "a", cache=tmp_path / "cache")
        installed = folder / "node_modules" / "installed"
        ran = len((tmp_path / "npm.ran").read_text().split())
        calls.append((installed.read_text(), ran))
        installed.write_text("changed by a test")
    assert calls == [("one", 1), ("one", 1), ("other", 2), ("other", 2)]
