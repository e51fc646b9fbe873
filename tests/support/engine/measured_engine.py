"""The engine outside its sandbox, in which coverage.py could not write what it measured."""

import sys

from transcode.engine import main as engine


def is_measured() -> bool:
    """Return whether coverage.py measures this process, as in `make cover`."""
    coverage = sys.modules.get("coverage")
    return coverage is not None and coverage.Coverage.current() is not None


def main(arguments: list[str]) -> int:
    """Run the engine as its command does, with all rights of this process."""
    engine._enter_sandbox = _stay_outside  # pyright: ignore[reportPrivateUsage]
    return engine.main(arguments)


def _stay_outside(*_: object) -> None:
    """Take the place of the function that enters the sandbox."""
