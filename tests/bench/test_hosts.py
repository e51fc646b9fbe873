"""The bench of several hosts: which CPU time counts for which, and when a target is met."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from bench.hosts.cores import Spent, SpentMeter, confine, pinned
from bench.hosts.machine import measure_machine
from bench.hosts.owner import OwnerCost
from bench.hosts.report import show_loads, show_machine, show_owners, show_queues
from bench.hosts.serving import ServedLoad
from bench.hosts.transcoding import QueueFigures

_WORK = "import time\nwhile time.process_time() < 0.3: pass\nprint(open('/proc/self/stat').read())"


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "import os\nprint(len(os.sched_getaffinity(0)))"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_what_is_started_on_a_core_stays_there_and_this_process_does_not() -> None:
    before = os.sched_getaffinity(0)
    starts: list[Callable[[], subprocess.Popen[str]]] = [_start]
    (child,) = pinned(starts)
    assert child.communicate()[0] == "1\n"
    assert os.sched_getaffinity(0) == before


def test_a_process_that_runs_is_confined_with_its_threads() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        confine([child.pid], [0])
        assert os.sched_getaffinity(child.pid) == {0}
        child.communicate(b"\n")


def test_the_time_of_a_child_is_its_parents_after_its_end_too() -> None:
    meter = SpentMeter([], [os.getpid()])
    subprocess.run([sys.executable, "-c", _WORK], check=True, stdout=subprocess.DEVNULL)
    assert meter.read().servers >= 0.25
    mine = SpentMeter([os.getpid()], [os.getpid()])
    subprocess.run([sys.executable, "-c", _WORK], check=True, stdout=subprocess.DEVNULL)
    spent = mine.read()
    assert spent.hosts >= 0.25
    assert spent.servers == pytest.approx(0, abs=0.05)


def test_work_on_two_cores_ends_with_the_later_one_and_a_failure_is_reported() -> None:
    assert measure_machine([sys.executable, "-c", "import time; time.sleep(0.2)"], 2) >= 0.2
    with pytest.raises(subprocess.CalledProcessError):
        measure_machine([sys.executable, "-c", "raise SystemExit(3)"], 1)


def test_the_gain_of_two_cores_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    show_machine({"counting": [10.0, 11.0]})
    assert "| counting | 10.0 | 11.0 | 1.82 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("whole", "shed", "met"), [(1150.0, False, True), (1160.0, False, False), (900.0, True, False)]
)
def test_an_owner_may_cost_so_much_more_if_no_rendition_was_shed(
    whole: float, shed: bool, met: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    own = OwnerCost(whole=1000.0, process=30.0, shed=False)
    shared = OwnerCost(whole=whole, process=60.0, shed=shed)
    assert show_owners({"folder": [own], "bucket": [shared]}) is met
    assert f"| ratio | {whole / 1000:.2f} (target: <= 1.15) | 2.00 |" in capsys.readouterr().out


_CPU = Spent(hosts=10.0, servers=1.0, strangers=0.0)


@pytest.mark.parametrize(("lasted", "met"), [(10.0, True), (11.5, False)])
def test_two_hosts_must_be_so_much_quicker(
    lasted: float, met: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = partial(QueueFigures, cpu=_CPU)
    queues = queue(count=1, lasted=20.0), queue(count=2, lasted=lasted)
    assert show_queues(queues, films=2, seconds=7) is met
    load = partial(ServedLoad, seconds=10.0, cpu=_CPU)
    loads = load(count=1, rate=100.0), load(count=2, rate=2000.0 / lasted)
    assert show_loads({"a playlist": loads}) is met
    assert "| 2 | " in capsys.readouterr().out
