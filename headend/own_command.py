"""The command by which this installation is operated, for texts that tell people to run it.

Texts name it `headend`, which a shell finds in the container, and as a service: there it is the
command for root (`deploy/system/headend`), which runs the program as the service's user. After
`make run` it lies in a folder of its own: there they name the file, which works from any folder.
"""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

_NAME: Final = "headend"
_MOST_COMMAND: Final = 4096  # bytes; the command for root is a short script


def own_command(started: str | None = None, search: str | None = None) -> str:
    """Return what to type in a shell for `headend`.

    `started` is the program that was started (by default this one), `search` the folders in which
    a shell looks (by default those of `PATH`).
    """
    program = Path(sys.argv[0] if started is None else started).absolute()
    if program.name != _NAME or not program.is_file():
        return _NAME  # a test, or a program that embeds it
    found = shutil.which(_NAME, path=search)
    if found is not None and (Path(found).samefile(program) or _runs(Path(found), program)):
        return _NAME
    return shlex.quote(str(program))


def _runs(command: Path, program: Path) -> bool:
    """Return whether a command is the script that runs this program."""
    try:
        with command.open("rb") as file:
            return f"program={program}\n".encode() in file.read(_MOST_COMMAND)
    except OSError:
        return False


def runnable(text: str) -> str:
    """Return a text in which each command in backticks can be run as it stands."""
    return text.replace(f"`{_NAME} ", f"`{own_command()} ")
