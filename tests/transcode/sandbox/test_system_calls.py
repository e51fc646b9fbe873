"""The list of system calls against the headers of this machine's Linux."""

import re
from collections import Counter
from pathlib import Path

import pytest

from transcode.sandbox.system_calls import SYSTEM_CALLS, Rule

MACHINES = ("x86_64", "aarch64")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Of asm-generic: marks, and two that aarch64 names otherwise. 403 to 423 are of 32-bit machines.
NOT_OF_AARCH64 = {"arch_specific_syscall", "syscalls", "fstatat", "sync_file_range2"}
NEWEST = 470


def kernel_numbers(machine: str) -> dict[str, int]:
    if not HEADERS[machine].exists():
        pytest.skip("the headers of Linux are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    numbers = {name: int(number) for name, number in found}
    if machine == "aarch64":
        for name in list(numbers):
            if name in NOT_OF_AARCH64 or 403 <= numbers[name] <= 423:
                del numbers[name]
    return numbers


def listed_numbers(machine: str) -> dict[str, int]:
    place = MACHINES.index(machine)
    return {
        name: call.numbers[place] for name, call in SYSTEM_CALLS.items() if call.numbers[place] >= 0
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_all_calls_of_the_kernels_headers_are_listed_by_their_numbers(machine: str) -> None:
    known, listed = kernel_numbers(machine), listed_numbers(machine)
    assert len(known) > 300
    assert {name: listed.get(name) for name in known} == known
    # What the headers do not have is newer than they are, or the one that they name otherwise.
    newer = {name for name in listed if name not in known}
    newest = max(known.values())
    assert all(listed[name] > newest or name in ("newfstatat", "uretprobe", "uprobe")
               for name in newer)  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_is_listed_twice_and_the_newest_is_known(machine: str) -> None:
    numbers = Counter(listed_numbers(machine).values())
    assert max(numbers.values()) == 1
    assert max(numbers) == NEWEST
    assert set(range(424, NEWEST + 1)) <= set(numbers)


def test_calls_that_came_after_424_have_one_number_on_both_machines() -> None:
    for call in SYSTEM_CALLS.values():
        if max(call.numbers) >= 424:
            assert call.numbers[0] == call.numbers[1], call


def test_every_call_has_a_reason_and_its_own_name() -> None:
    for name, call in SYSTEM_CALLS.items():
        assert call.name == name
        assert call.why
        assert not call.why.endswith(".")
    assert {call.rule for call in SYSTEM_CALLS.values()} == set(Rule)


@pytest.mark.parametrize(
    "name",
    [
        "setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_setattr", "file_getattr",
        "inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "fanotify_init",
        "fanotify_mark", "fspick", "open_tree_attr", "memfd_secret", "modify_ldt", "io_setup",
        "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents", "io_uring_setup",
        "io_uring_enter", "io_uring_register",
    ],
)  # fmt: skip
def test_what_no_decoder_needs_is_denied(name: str) -> None:
    assert SYSTEM_CALLS[name].rule in (Rule.DENIED, Rule.CHANGING)
