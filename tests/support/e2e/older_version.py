"""Older versions of Headend from the project's history, installed next to the current one.

An older version uses the current one's libraries, but has its own environment, since engines are
started without the caller's paths.
"""

import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Final

from storage.catalog.migrations import REVISION

_ROOT: Final = Path(__file__).parents[3]
_STEPS: Final = "storage/catalog/migrations/__init__.py"
_START: Final = "#!{python}\nfrom headend.cli import main\n\nmain()\n"


def oldest_of_this_form() -> str:
    """Return the oldest commit with the current version's schema.

    Such versions work side by side: see `storage.catalog.migrations`.
    """
    # Newest first: each of these commits changed the revision.
    changed = _git("log", "--format=%H", "-G^REVISION", "HEAD", "--", _STEPS).split()
    same: list[str] = []
    for commit in changed:
        if _form_at(commit) != REVISION.partition(".")[0]:
            break
        same.append(commit)
    assert same, f"the form of {REVISION} is in no commit yet: commit it first"
    return same[-1]


def install(commit: str, folder: Path) -> Path:
    """Install the version of a commit in a folder, and return its command `headend`."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=_ROOT, capture_output=True, check=True
    )
    folder.mkdir(parents=True, exist_ok=True)
    # Not `tarfile`: Python 3.11.2 has no filters, and newer versions ask for one.
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    home = folder / ".venv"
    venv.create(home, symlinks=True)
    bin_folder = home / "bin"
    paths = {"base": str(home), "platbase": str(home)}
    libraries = Path(sysconfig.get_path("purelib", vars=paths))
    # The old version first: the current libraries have a link to the current code.
    lines = f"{folder}\n{sysconfig.get_path('purelib')}\n"
    (libraries / "older.pth").write_text(lines)
    command = bin_folder / "headend"
    command.write_text(_START.format(python=bin_folder / "python"))
    command.chmod(0o755)
    return command


def _form_at(commit: str) -> str:
    text = _git("show", f"{commit}:{_STEPS}")
    line = next(each for each in text.splitlines() if each.startswith("REVISION"))
    return line.split('"')[1].partition(".")[0]


def _git(*arguments: str) -> str:
    """Run git in the project's repository, which must be a full clone."""
    is_shallow = _run_git("rev-parse", "--is-shallow-repository").strip()
    assert is_shallow == "false", "this clone lacks the project's history: git fetch --unshallow"
    return _run_git(*arguments)


def _run_git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (
        "older versions are in the project's history: run this test in a clone of it"
        f" (git says: {done.stderr.strip()})"
    )
    return done.stdout
