"""A run in forks compared with a run in one process: reports, fixtures, deaths and early ends."""

import re
import subprocess
import sys
from pathlib import Path

CONFTEST = """
import os, pytest
from tests.support.crew import run_in_forks

units = {}
PARENT = os.getpid()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    for index, item in enumerate(session.items):
        units.setdefault(item.path.name, []).append(index)
    left = list(units.values())
    print(run_in_forks(session, 2, lambda _: left.pop() if left else [], begin, lambda: "rest"))
    return True


def begin(number):
    os.environ["NUMBER"] = str(number)


@pytest.fixture(scope="session")
def shared():
    assert os.getpid() != PARENT
    yield os.getpid()
    with open("ended", "a") as file:
        file.write("ended\\n")
"""
GOOD = """
import os
def test_first(shared, tmp_path):
    assert shared == os.getpid()
    print("said in a fork")
def test_second(shared):
    assert os.environ["NUMBER"] in "01"
"""
BAD = """
import os, signal
def test_wrong(shared):
    print("said before it failed")
    assert 1 == 2
def test_deadly():
    os.kill(os.getpid(), signal.SIGKILL)
def test_after(shared):
    pass
"""


def run(folder: Path, *arguments: str, **files: str) -> tuple[str, dict[str, int]]:
    """Run tests in two forks; return what was printed, and how many tests ended in which way."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pytest.ini").touch()
    options = ("-c", "pytest.ini", "-p", "no:cacheprovider", "-p", "no:schemathesis")
    program = (sys.executable, "-m", "pytest", "-q", *options, *arguments, ".")
    ended = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=120)
    counts = re.findall(r"(\d+) (passed|failed)", ended.stdout.splitlines()[-1])
    return ended.stdout + ended.stderr, {what: int(number) for number, what in counts}


def test_all_tests_run_and_each_fork_ends_its_fixtures_once(tmp_path: Path) -> None:
    output, counts = run(tmp_path, **{f"test_good_{number}": GOOD for number in range(5)})
    assert counts == {"passed": 10}, output
    assert "['rest', 'rest']" in output
    assert "said in a fork" not in output
    assert len((tmp_path / "ended").read_text().splitlines()) in (1, 2)


def test_a_fork_that_dies_fails_its_test_alone(tmp_path: Path) -> None:
    output, counts = run(tmp_path, test_bad=BAD, test_good=GOOD)
    assert counts == {"failed": 2, "passed": 3}, output
    assert "assert 1 == 2" in output
    assert "said before it failed" in output
    assert "the process of this test ended: -9" in output


def test_a_run_may_end_at_the_first_failure(tmp_path: Path) -> None:
    output, counts = run(tmp_path, "-x", test_bad=BAD)
    assert counts == {"failed": 1}, output
    assert (tmp_path / "ended").read_text() == "ended\n"
    assert "stopping after 1 failures" in output
