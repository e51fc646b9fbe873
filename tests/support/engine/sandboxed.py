"""Python processes that enter the sandbox and try what it denies."""

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.waiting import SCALE

ROOT = Path(__file__).parents[3]
ON_X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")


def child(box: str, code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run code in a new Python after the statements that enter the sandbox.

    It leads a process group of its own: what it does to its group must not reach the tests.
    """
    imports = "import os, sys\nfrom transcode.sandbox import rlimits, seccomp"
    script = f"{imports}\n{box}\n{textwrap.dedent(code)}"
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=30 * SCALE, check=False, cwd=cwd,
        process_group=0, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def outcome(box: str, code: str, cwd: Path = ROOT) -> str:
    """Return what the child printed, or the errno's name of the OSError that was raised."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    done = child(
        box,
        f"import errno\ntry:\n{body}\nexcept OSError as error:\n"
        "    print(errno.errorcode[error.errno])",
        cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def stricter(errno_: int) -> str:
    """Return statements that make seccomp(2) fail with an errno, as an outer sandbox may."""
    return textwrap.dedent(f"""
        import ctypes, struct
        steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 317), (6, 0, 0, {0x50000 | errno_}),
                 (6, 0, 0, 0x7fff0000)]
        code = b"".join(struct.pack("=HBBI", *step) for step in steps)
        program = seccomp._Program(len(steps), code)
        libc = ctypes.CDLL(None)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
        """)
