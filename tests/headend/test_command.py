import subprocess
import sys

# Runs the command as the installed program does, and prints the garbage collector's state.
_PROGRAM = """
import gc
from headend.command import main
try:
    main()
finally:
    print(gc.isenabled(), gc.get_freeze_count() > 100_000)
"""


# As the installed program; tearing the interpreter down would print a line.
_INSTALLED = """
import atexit
from headend.command import run
atexit.register(print, "torn down")
run()
"""


def run(*arguments: str, program: str = _PROGRAM) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_command_runs_with_its_modules_frozen() -> None:
    done = run("serve", "--help")
    assert "Run the whole service in this process." in done.stdout
    assert done.stdout.endswith("True True\n")
    assert done.returncode == 0, done.stderr


def test_the_exit_status_is_that_of_the_command() -> None:
    done = run("no-such-command")
    assert done.returncode == 2
    assert "No such command" in done.stderr


def test_an_installed_command_prints_all_and_ends_without_tearing_down() -> None:
    """The threads of the client of buckets would abort a process that is torn down."""
    done = run("settings", program=_INSTALLED)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nstorage.url" in done.stdout
    assert "torn down" not in done.stdout
    refused = run("no-such-command", program=_INSTALLED)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "No such command" in refused.stderr
