"""Each number from 0 to 600 and beyond: as the filters answer it, and tried in a real sandbox."""

import errno
import json
import platform
import signal
import textwrap

import pytest

from tests.support.engine.bpf import ALLOW, ARCHITECTURE, ENOSYS, EPERM, KILL, answer
from tests.support.engine.sandboxed import ON_X86_64, child
from transcode.engine.main import SANDBOXES
from transcode.sandbox.seccomp import change_filter, network_filter, opening_filter
from transcode.sandbox.system_calls import SYSTEM_CALLS, Rule, SystemCall

OWN = 4711
MACHINES = tuple(ARCHITECTURE)
# Arguments that no check allows: a descriptor, process or command of -1, and all flags; of a new
# process, no flags.
NONSENSE = (0xFFFF_FFFF_FFFF_FFFF,) * 6
NO_FLAGS = {"clone"}
# The kernel answers these past all filters, since Linux 6.14 and 6.18; a process that no debugger
# watches is ended for the first.
PAST_FILTERS = {"uretprobe", "uprobe"}


def by_number(machine: str) -> dict[int, SystemCall]:
    place = MACHINES.index(machine)
    return {call.numbers[place]: call for call in SYSTEM_CALLS.values() if call.numbers[place] >= 0}


def arguments_of(call: SystemCall | None) -> tuple[int, ...]:
    return (0,) * 6 if call is not None and call.name in NO_FLAGS else NONSENSE


def expected(call: SystemCall | None) -> int:
    """Return the sandbox's answer to a call with arguments that no check allows."""
    match call.rule if call is not None else None:
        case None | Rule.MISSING:
            return ENOSYS
        case Rule.ALLOWED:
            return ALLOW
        case Rule.OPENING | Rule.CHECKED | Rule.CHANGING | Rule.DENIED:
            return EPERM


def answered(programs: list[bytes], machine: str, number: int, *arguments: int) -> int:
    """Return what the kernel makes of the answers of several filters."""
    answers = {answer(each, ARCHITECTURE[machine], number, *arguments) for each in programs}
    refusals = answers - {ALLOW}
    assert len(refusals) <= 1, "no two filters give different reasons"
    return refusals.pop() if refusals else ALLOW


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_number_is_answered_as_its_call_is_listed(machine: str, closed: bool) -> None:
    programs = [network_filter(machine, OWN), change_filter(machine)]
    programs += [opening_filter(machine)] if closed else []
    calls = by_number(machine)
    for number in (*range(2_000), 0xFFFF, 0x3FFF_FFFF):
        call = calls.get(number)
        given = answered(programs, machine, number, *arguments_of(call))
        assert given == expected(call), (number, call)


@pytest.mark.parametrize("machine", MACHINES)
def test_reading_is_allowed_where_opening_is(machine: str) -> None:
    programs = [network_filter(machine, OWN), change_filter(machine)]
    number = SYSTEM_CALLS["openat"].numbers[MACHINES.index(machine)]
    assert answered(programs, machine, number, 0, 0, 0) == ALLOW
    assert answered([*programs, opening_filter(machine)], machine, number, 0, 0, 0) == EPERM


def test_all_numbers_of_x32_kill() -> None:
    for program in (network_filter("x86_64", OWN), change_filter("x86_64")):
        for number in range(0x4000_0000, 0x4000_0000 + 600):
            assert answer(program, ARCHITECTURE["x86_64"], number) == KILL


@pytest.mark.parametrize("kind", SANDBOXES)
def test_a_real_sandbox_answers_each_number_as_its_call_is_listed(kind: str) -> None:
    """All but those that are allowed, with arguments that would do no harm if they were."""
    calls = by_number(platform.machine())
    numbers = [
        number
        for number in range(601)
        if number not in calls
        or (calls[number].rule is not Rule.ALLOWED and calls[number].name not in PAST_FILTERS)
    ]
    tried = {number: arguments_of(calls.get(number))[0] & 1 for number in numbers}
    done = child(
        "import ctypes, errno, json\nfrom transcode.engine import main\n"
        f"main._enter_sandbox(main.SANDBOXES[{kind!r}], 0)",
        f"""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        answers = {{}}
        for number, argument in {tried}.items():
            ctypes.set_errno(0)
            result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-argument)] * 6)
            answers[number] = result if result != -1 else errno.errorcode[ctypes.get_errno()]
        print(json.dumps(answers))
        """,
    )
    assert done.returncode == 0, done.stderr
    names = {EPERM: "EPERM", ENOSYS: "ENOSYS"}
    wanted = {str(number): names[expected(calls.get(number))] for number in numbers}
    assert json.loads(done.stdout) == wanted
    assert len(wanted) > 400


@ON_X86_64
@pytest.mark.parametrize("number", [0, 39, 41, 59, 512, 520, 544, 600])
def test_a_real_sandbox_kills_calls_of_x32(number: int) -> None:
    done = child(
        "seccomp.deny_network()",
        f"import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long({0x4000_0000 | number}), 0, 0, 0)",
    )
    assert done.returncode == -signal.SIGSYS


def test_a_fault_of_a_filter_would_show() -> None:
    """Outside of the sandbox the same calls are answered otherwise."""
    number = SYSTEM_CALLS["inotify_init1"].numbers[MACHINES.index(platform.machine())]
    code = textwrap.dedent(f"""
        import ctypes
        print(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long({number}), 0) >= 0)
        """)
    assert child("", code).stdout.strip() == "True"
    refused = child("seccomp.deny_network()", code + "print(ctypes.get_errno())")
    assert refused.stdout.split() == ["False", str(errno.EPERM)]
