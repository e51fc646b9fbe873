"""Resource limits, and an engine's end with its parent, tried by real child processes."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.engine.sandboxed import ROOT, child, outcome


def test_a_file_from_before_cannot_grow(tmp_path: Path) -> None:
    script = "print(os.write(file, b'x'))"
    before = "file = os.open('out', os.O_WRONLY | os.O_CREAT)"
    assert outcome(before, script, tmp_path) == "1"
    limits = f"{before}; rlimits.set_limits(memory_bytes=1 << 30)"
    assert outcome(limits, "os.lseek(file, 0, 2); " + script, tmp_path) == "EFBIG"
    assert (tmp_path / "out").read_bytes() == b"x"


def test_memory_is_bounded() -> None:
    script = """
        try:
            block = bytearray(200 << 20)
            print("given")
        except MemoryError:
            print("refused")
        """
    assert outcome("rlimits.set_limits(memory_bytes=100 << 20)", script) == "refused"
    assert outcome("rlimits.set_limits(memory_bytes=400 << 20)", script) == "given"


def test_descriptors_and_processor_time_are_bounded() -> None:
    few = "rlimits.set_limits(memory_bytes=1 << 30, files=10)"
    assert outcome(few, "[os.pipe() for _ in range(9)]") == "EMFILE"
    hour = child("rlimits.set_limits(memory_bytes=1 << 30, cpu_seconds=1)", "while True: pass")
    assert -hour.returncode in (signal.SIGXCPU, signal.SIGKILL)


def test_processor_time_is_limited_from_now_on_and_anew() -> None:
    box = "rlimits.set_limits(memory_bytes=1 << 30)"
    spent = "import time\nwhile time.process_time() < 0.6: pass\n"
    loop = "while True: pass"
    assert child(f"{box}; rlimits.limit_cpu(0.5)", loop).returncode == -signal.SIGXCPU
    more = f"{spent}rlimits.limit_cpu(30)\nwhile time.process_time() < 1.5: pass\nprint('more')"
    assert child(f"{box}; rlimits.limit_cpu(0.5)", more).stdout == "more\n"


def test_processor_time_stays_below_a_limit_from_before() -> None:
    box = "rlimits.set_limits(memory_bytes=1 << 30, cpu_seconds=1); rlimits.limit_cpu(1000)"
    assert -child(box, "while True: pass").returncode in (signal.SIGXCPU, signal.SIGKILL)


def test_limits_cannot_be_taken_back_and_leave_no_core() -> None:
    script = """
        import resource
        print(resource.getrlimit(resource.RLIMIT_CORE), os.nice(0) - before)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
        except ValueError:
            print("kept")
        """
    # Root may raise its limits again, were it not for the capability that is dropped here.
    drop = "import ctypes; ctypes.CDLL(None).prctl(24, 24, 0, 0, 0); os.setgroups([]); " * (
        os.getuid() == 0
    )
    user = "os.setuid(65534); " * (os.getuid() == 0)
    box = f"before = os.nice(0); rlimits.set_limits(memory_bytes=1 << 30, nice=3); {drop}{user}"
    added = min(3, 19 - os.nice(0))  # 19 is the most
    assert outcome(box, script).splitlines() == [f"(0, 0) {added}", "kept"]


def test_a_child_dies_with_its_parent() -> None:
    # The grandchild holds the pipe open until it is gone.
    grandchild = (
        "import os, time; from transcode.sandbox import rlimits; "
        "rlimits.die_with_parent(); print(os.getpid(), flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {grandchild!r}]); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert int(process.stdout.readline()) > 0
        finally:
            process.kill()
        ready, _, _ = select.select([process.stdout], [], [], 10)
        assert ready, "the grandchild lives on"
        assert process.stdout.read() == b""


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    completed = child("rlimits.die_with_parent(2 ** 22 + 1)", "print('lives')")
    assert (completed.returncode, completed.stdout) == (-signal.SIGKILL, "")
    assert outcome(f"rlimits.die_with_parent({os.getpid()})", "print('lives')") == "lives"
