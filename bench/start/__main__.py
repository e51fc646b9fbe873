"""The command `python -m bench.start`: what starts cost, and what stays in memory.

Each kind is started so many times, in turn, in processes of their own. The status is 0 if the
targets are met, 1 if one is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.tools import verdict
from tests.support.e2e.service import HEADEND, service

_ENGINE: Final = (sys.executable, "-I", "-m", "transcode.engine")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_READ_CALL: Final = "63" if os.uname().machine == "aarch64" else "0"
# What still runs after the line that says "ready" is over by then.
_IDLE_SECONDS: Final = 2.0
_READY_SECONDS: Final = 1.5
_IDLE_MB: Final = 90.0


class StartFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One start: seconds until it is ready, or over, and of CPU up to then; then MB.

    `rss` is what is resident, of which `own` is shared with no other process; `pss` is `own` and
    the process' share of the rest.
    """

    ready: float
    cpu: float
    rss: float
    pss: float = 0
    own: float = 0


def main() -> int:
    """Measure, print a table, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="starts of each kind")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), rounds)
    print("| started | ready | CPU | RSS | PSS | USS |")
    print("|---|---|---|---|---|---|")
    for name, each in figures.items():
        held = f"{each.pss:.0f} MB | {each.own:.0f} MB" if each.pss else " | "
        print(f"| {name} | {each.ready:.2f} s | {each.cpu:.2f} s | {each.rss:.0f} MB | {held} |")
    first = figures["headend serve, first start"]
    missed = [
        f"missed: {what}: {value:.2f}, at most {most:.2f}"
        for what, value, most in (
            ("seconds until ready", first.ready, _READY_SECONDS),
            ("MB resident", first.rss, _IDLE_MB),
        )
        if value > most
    ]
    return verdict(missed, "all targets are met")


def measured(folder: Path, rounds: int) -> Mapping[str, StartFigures]:
    """Return the medians of so many starts of each kind, which take turns."""
    data = folder / "0"
    kinds: dict[str, Callable[[int], StartFigures]] = {
        "headend serve, first start": lambda turn: _serve(folder / str(turn)),
        "headend serve, again": lambda turn: _serve(folder / str(turn)),
        "engine live": lambda _: _engine("live"),
        "engine watch": lambda _: _engine("watch"),
        "engine probe": lambda _: _command(*_ENGINE, "probe"),
        "headend --version": lambda _: _command(str(HEADEND), "--version"),
        "headend settings": lambda _: _command(str(HEADEND), "settings"),
        "headend streams": lambda _: _command(str(HEADEND), "streams", "--data", f"{data}/data"),
    }
    taken: dict[str, list[StartFigures]] = {name: [] for name in kinds}
    for turn in range(rounds):
        for name, start in kinds.items():
            taken[name].append(start(turn))
    return {name: _medians(each) for name, each in taken.items()}


def _medians(starts: list[StartFigures]) -> StartFigures:
    values = {
        field: median(getattr(start, field) for start in starts)
        for field in StartFigures.__struct_fields__
    }
    return StartFigures(**values)


def _serve(folder: Path) -> StartFigures:
    folder.mkdir(exist_ok=True)
    with service(folder / "data", may_fork=False) as running:
        pid, ready = running.process.pid, running.started_seconds
        cpu = _cpu_seconds(pid)
        time.sleep(_IDLE_SECONDS)
        return StartFigures(ready=ready, cpu=cpu, **_memory(pid))


def _engine(kind: str) -> StartFigures:
    """Start an engine; it is ready when it waits for its first order."""
    began = time.monotonic()
    with subprocess.Popen((*_ENGINE, kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        while not _reads_its_input(child.pid):
            assert child.poll() is None, "the engine ended"
            time.sleep(0.005)
        ready = time.monotonic() - began
        return StartFigures(ready=ready, cpu=_cpu_seconds(child.pid), **_memory(child.pid))


def _command(*command: str) -> StartFigures:
    """Run a command to its end; its memory is what it held at most."""
    began = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(child.pid, 0)
    child.returncode = 0  # it was waited for here
    return StartFigures(
        ready=time.monotonic() - began, cpu=used.ru_utime + used.ru_stime, rss=used.ru_maxrss / 1024
    )


def _reads_its_input(pid: int) -> bool:
    call, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
    return [call, *arguments[:1]] == [_READ_CALL, "0x0"]


def _cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _memory(pid: int) -> dict[str, float]:
    fields = _fields(Path(f"/proc/{pid}/smaps_rollup"))
    own = _mb(fields["Private_Clean"]) + _mb(fields["Private_Dirty"])
    return {"rss": _mb(fields["Rss"]), "pss": _mb(fields["Pss"]), "own": own}


def _mb(text: str) -> float:
    return int(text.removesuffix("kB")) / 1024


def _fields(file: Path) -> dict[str, str]:
    """Return the lines `name: value` of a file of the kernel."""
    lines = (line.partition(":") for line in file.read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


if __name__ == "__main__":
    sys.exit(main())
