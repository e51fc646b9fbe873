"""Node packages, installed once from their lock file, then copied from pytest's cache.

The key is the lock file and the version of npm; `pytest --cache-clear` and `make clean` empty the
cache.
"""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.waiting import SCALE

_CACHE: Final = Path(__file__).parents[2] / ".pytest_cache" / "d" / "packages"
_NAMED: Final = ("package.json", "package-lock.json", ".npmrc")


def install_packages(folder: Path, npm: Sequence[str], name: str, cache: Path = _CACHE) -> None:
    """Install the packages of a folder's lock file into it; `name` is their name in the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    cached, stamp = cache / name, cache / f"{name}.key"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be installing them
        key = _key(folder, npm)
        if not stamp.exists() or stamp.read_text() != key:
            done = subprocess.run(
                [*npm, "ci"],
                cwd=folder, capture_output=True, text=True, timeout=180 * SCALE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            stamp.unlink(missing_ok=True)
            shutil.rmtree(cached, ignore_errors=True)
            shutil.copytree(folder / "node_modules", cached, symlinks=True)
            stamp.write_text(key)
            return
    shutil.copytree(cached, folder / "node_modules", symlinks=True)


def _key(folder: Path, npm: Sequence[str]) -> str:
    """Return the key of an installation in the cache."""
    programs = [(each, Path(each).resolve().stat().st_mtime_ns) for each in npm]
    named = [path.read_bytes() for each in _NAMED if (path := folder / each).exists()]
    return hashlib.sha256(repr((programs, named)).encode()).hexdigest()
