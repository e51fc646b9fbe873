"""Programs that run at once on one catalog, each in a process of its own.

To import the catalog takes 1.2 s of CPU. So one process does it, once for all tests, and forks,
before anything is opened, into those that run: they share what is imported, and nothing else.
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

__all__ = ["run_together"]


async def run_together(*programs: Sequence[str], seconds: float = 240) -> list[str]:
    """Run programs, each a text of Python with its arguments; what each printed.

    A program may call `together()`: it comes back when all have called it, or ended.

    Raises:
        AssertionError: one failed, or not all ended within `seconds`.
    """
    parent = _parent()
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(_ask, parent, programs)
    except BaseException:
        _parent.cache_clear()
        _end(parent)  # its children end with it: nobody holds them back any more
        raise


@functools.cache
def _parent() -> subprocess.Popen[str]:
    """The process that forks; it ends with this one."""
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
    """Be the process of one program until it ends."""
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
    assert storage.catalog  # what they all need
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_run(json.loads(line))) + "\n")
        sys.stdout.flush()
