"""A cache of media that foreign encoders generate from their arguments alone.

The processes of a test run, and later runs, need the same files. Their key is the program and its
arguments; `pytest --cache-clear` and `make clean` empty the cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
CACHE: Final = _ROOT / ".pytest_cache" / "d" / "media"
_DAYS: Final = 14  # files that no test has used for so long are removed


def is_made_of_nothing(arguments: Sequence[str]) -> bool:
    """Return whether FFmpeg's arguments name no input file, only its own generators."""
    inputs = [number for number, each in enumerate(arguments) if each == "-i"]
    places = (tempfile.gettempdir(), str(_ROOT))
    return all(
        tuple(arguments[max(number - 2, 0) : number]) == ("-f", "lavfi") for number in inputs
    ) and not any(place in each for place in places for each in arguments)


def make_file(command: Sequence[str], path: Path, *, seconds: float, cache: Path = CACHE) -> str:
    """Run a command whose last argument is the file at `path`, or copy its cached output.

    `seconds` is the time limit. Return what it wrote to standard error; a file with errors is not
    cached.
    """
    cache.mkdir(parents=True, exist_ok=True)
    cached = cache / f"{_key(command)}{path.suffix}"
    with cached.with_suffix(f"{path.suffix}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making it
        if cached.exists():
            os.utime(cached)
            shutil.copyfile(cached, path)
            return ""
        done = subprocess.run(
            [*command, str(path)], capture_output=True, check=False, timeout=seconds
        )
        assert done.returncode == 0, done.stderr.decode()
        if not done.stderr:
            new = cached.with_suffix(f"{path.suffix}.new")
            shutil.copyfile(path, new)
            new.replace(cached)
        return done.stderr.decode()


def _key(command: Sequence[str]) -> str:
    """Return a command's key in the cache, which includes the version of the program."""
    program = Path(shutil.which(command[0]) or command[0]).resolve().stat()
    facts = (program.st_size, program.st_mtime_ns, *command)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def forget_old(now: float, cache: Path = CACHE) -> None:
    """Remove the files that were not used in the last days; `now` is a Unix time in seconds."""
    for path in cache.glob("*"):
        if path.stat().st_mtime < now - _DAYS * 86_400:
            path.unlink(missing_ok=True)
