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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
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
