"""Programs that run concurrently on one catalog, each in its own process.

Importing the catalog takes 1.2 s of CPU. One parent process imports it once for all tests, and
forks the programs before anything is opened: they share the imported modules only.
"""

import asyncio
import atexit
import functools
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import storage.catalog


async def run_together(*programs: Sequence[str], seconds: float = 240) -> list[str]:
    """Run programs, each a Python source with its arguments, and return what each printed.

    `together()` in a program waits until every program has called it or ended.

    Raises:
        AssertionError: a program failed, or did not end within `seconds`.
    """
    parent = _parent()
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(_ask, parent, programs)
    except BaseException:
        _parent.cache_clear()
        _end(parent)  # its children end with it, as `together()` no longer blocks
        raise


@functools.cache
def _parent() -> subprocess.Popen[str]:
    """Start the process that forks the programs; it ends with this one."""
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, text=True)
    atexit.register(_end, parent)
    return parent


def _end(parent: subprocess.Popen[str]) -> None:
    parent.kill()
    parent.communicate()


def _ask(parent: subprocess.Popen[str], programs: Sequence[Sequence[str]]) -> list[str]:
    assert parent.stdin
    assert parent.stdout
    parent.stdin.write(json.dumps(programs) + "\n")
    parent.stdin.flush()
    line = parent.stdout.readline()
    assert line, "a program failed"
    answers: list[str] = json.loads(line)
    return answers


def _become(
    source: str, arguments: list[str], output: int, together: Callable[[], None]
) -> NoReturn:
    """Run one program in this process, then exit."""
    status = 1
    try:
        sys.argv[1:] = arguments
        sys.stdout = os.fdopen(output, "w")
        exec(source, {"__name__": "__main__", "together": together})
        sys.stdout.flush()
        status = 0
    except BaseException:  # noqa: BLE001 - the edge of a process
        traceback.print_exc()
    finally:
        together()
        os._exit(status)


def _run(programs: list[list[str]]) -> list[str]:
    ready, tell_ready = os.pipe()
    begun, hold = os.pipe()

    def together() -> None:
        os.write(tell_ready, b".")
        os.read(begun, 1)

    children: list[tuple[int, int]] = []
    for source, *arguments in programs:
        printed, output = os.pipe()
        number = os.fork()
        if number == 0:
            os.close(hold)
            _become(source, arguments, output, together)
        os.close(output)
        children.append((number, printed))
    for _ in programs:
        os.read(ready, 1)
    os.close(hold)
    answers = [Path(f"/dev/fd/{printed}").read_text() for _, printed in children]
    ends = [os.waitpid(number, 0)[1] for number, _ in children]
    for each in (ready, tell_ready, begun, *(printed for _, printed in children)):
        os.close(each)
    assert ends == [0] * len(children), ends
    return answers


if __name__ == "__main__":
    assert storage.catalog  # imported before the first fork
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_run(json.loads(line))) + "\n")
        sys.stdout.flush()
