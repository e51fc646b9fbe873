"""The command `headend` with some arguments, run to its end: what it printed, how it ended."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.forks import fork

__all__ = ["run_headend"]

_HEADEND: Final = str(Path(sys.executable).with_name("headend"))
_ENTRY: Final = "tests.support.e2e.forked_commands:run_command"
_MAY_FORK: Final = os.environ.get("HEADEND_TEST_FORKS") == "1"


def run_headend(
    *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command, without an `environment` in this one; as a fork, where tests may have some.

    Raises:
        subprocess.TimeoutExpired: it runs after so many seconds.
    """
    command = [_HEADEND, *arguments]
    if not _MAY_FORK:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile("w+") as printed,
        tempfile.TemporaryFile("w+") as errors,
    ):
        files = (nothing.fileno(), printed.fileno(), errors.fileno())
        process = fork(_ENTRY, command, files, environment)
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        for each in (printed, errors):
            each.seek(0)
        return subprocess.CompletedProcess(command, status, printed.read(), errors.read())
