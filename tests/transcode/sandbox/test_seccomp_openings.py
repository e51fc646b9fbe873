"""The part of the box that forbids to open files, tried from inside by a real child."""

import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from transcode.sandbox.rlimits import SandboxError
from transcode.sandbox.seccomp import opening_filter

ROOT = Path(__file__).parents[3]


def outcome(code: str) -> str:
    script = (
        "import errno, os, threading\nfrom transcode.sandbox import seccomp\n"
        "before = os.open('/etc/hostname', os.O_RDONLY)\nseccomp.deny_openings()\n"
        f"try:\n    {code}\n    print('done')\n"
        "except OSError as error:\n    print(errno.errorcode[error.errno])\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True,
        cwd=ROOT,
    )  # fmt: skip
    return completed.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/hostname').read()",
        "os.open('/dev/null', os.O_RDONLY)",
        "os.open('/proc/self/fd/0', os.O_RDONLY)",
        "os.open('etc/hostname', os.O_RDONLY, dir_fd=os.open('/', os.O_RDONLY))",
        "open('/proc/self/mem', 'rb')",
    ],
)
def test_no_file_opens_any_more(code: str) -> None:
    assert outcome(code) == "EPERM"


@pytest.mark.parametrize(
    "code",
    [
        "os.read(before, 1)",
        "os.lseek(before, 0, os.SEEK_SET)",
        "os.pipe()",
        "threading.Thread(target=bytearray, args=(1 << 20,)).start()",
    ],
)
def test_what_is_open_is_read_on_and_threads_begin(code: str) -> None:
    assert outcome(code) == "done"


def test_a_machine_without_a_list_is_no_box() -> None:
    with pytest.raises(SandboxError):
        opening_filter("m68k")
    assert len(opening_filter(platform.machine())) % struct.calcsize("=HBBI") == 0
