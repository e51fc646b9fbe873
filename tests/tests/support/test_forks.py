"""Forks compared with processes of `subprocess`: files, environment, signals and exits."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.forks import ForkedProcess, fork, prepare

HERE = "tests.tests.support.test_forks:{}"


def tell(arguments: list[str]) -> int:
    """Run in the fork: print the arguments, and exit with a status."""
    print(*arguments, os.environ["WORD"], os.getpid(), sep="\n", flush=True)  # noqa: T201
    return 3


def wait_for_a_signal(arguments: list[str]) -> None:
    """Run in the fork: print a line, and wait for a signal."""
    print(*arguments, flush=True)  # noqa: T201
    signal.pause()


def leave_a_pool(_: list[str]) -> int:
    """Run in the fork: return while a pool's thread waits for work."""
    pool = ThreadPoolExecutor()
    print(pool.submit(int).result())  # noqa: T201
    return 4


def forked(function: str, *arguments: str) -> ForkedProcess:
    reading, writing = os.pipe()
    with Path(os.devnull).open("rb") as nothing, os.fdopen(writing, "w") as printing:
        files = (nothing.fileno(), printing.fileno(), 2)
        environment = {**os.environ, "WORD": "a word"}
        return fork(HERE.format(function), arguments, files, environment, os.fdopen(reading))


def output_lines(process: ForkedProcess) -> list[str]:
    assert process.stdout is not None
    with process.stdout as output:
        return output.read().splitlines()


def test_a_fork_has_its_arguments_environment_and_status() -> None:
    process = forked("tell", "one", "two")
    assert output_lines(process) == ["one", "two", "a word", str(process.pid)]
    assert (process.wait(10), process.poll(), process.wait()) == (3, 3, 3)
    assert not Path(f"/proc/{process.pid}").exists()
    process.terminate()  # no effect: it has ended


def test_what_is_loaded_before_its_time_forks_when_it_is_asked_to() -> None:
    prepare(HERE.format("tell"))
    prepare(HERE.format("tell"))
    process = forked("tell", "one")
    assert output_lines(process) == ["one", "a word", str(process.pid)]
    assert process.wait(10) == 3


def test_a_fork_ends_though_a_pool_of_threads_is_left() -> None:
    process = forked("leave_a_pool")
    assert process.wait(10) == 4
    assert output_lines(process) == ["0"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_a_fork_alone(number: signal.Signals) -> None:
    processes = [forked("wait_for_a_signal", "here") for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
    first, second = processes
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0)
    first.send_signal(number)
    assert first.wait(10) == -number
    assert second.poll() is None
    second.kill()
    assert second.wait(10) == -signal.SIGKILL
    for process in processes:
        assert output_lines(process) == []
