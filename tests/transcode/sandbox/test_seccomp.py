"""The engine's box, tried from inside by real child processes and, call by call, on its filter."""

import errno
import os
import signal
import textwrap
from pathlib import Path

import pytest

from tests.support.engine.bpf import ALLOW, ARCHITECTURE, ENOSYS, EPERM, KILL, answer
from tests.support.engine.sandboxed import ON_X86_64, child, outcome, stricter
from transcode.sandbox.rlimits import SandboxError
from transcode.sandbox.seccomp import change_filter, network_filter

OWN = 4711

NETWORK = "seccomp.deny_network()"
CHANGES = "seccomp.deny_changes()"
ALL = "rlimits.set_limits(memory_bytes=1 << 30); seccomp.deny_network(); seccomp.deny_changes()"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("socket.socket(socket.AF_INET)", id="IPv4"),
        pytest.param("socket.socket(socket.AF_INET6)", id="IPv6"),
        pytest.param("socket.socket(socket.AF_UNIX)", id="Unix"),
        pytest.param("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", id="UDP"),
        pytest.param("socket.socketpair()", id="a pair"),
    ],
)
def test_a_socket_opens_outside_of_the_box_only(code: str) -> None:
    script = f"import socket\n{code}\nprint('open')"
    assert outcome("", script) == "open"
    assert outcome(NETWORK, script) == "EPERM"


def test_a_socket_from_before_cannot_be_used() -> None:
    script = """
        import socket
        try:
            pair[0].{call}
            print('done')
        except OSError as error:
            print(errno.errorcode[error.errno])
        """
    before = "import socket; pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"
    for call in ("send(b'x')", "sendmsg([b'x'])", "connect('/nowhere')", "listen()"):
        assert outcome(f"{before}; {NETWORK}", script.format(call=call)) == "EPERM"
    assert outcome(before, script.format(call="send(b'x')")) == "done"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os.fork() or os._exit(0)", id="a process"),
        pytest.param("os.posix_spawn('/bin/true', ['true'], {})", id="a child with a program"),
        pytest.param("os.execv('/bin/sh', ['sh', '-c', 'echo done'])", id="a program"),
        pytest.param("os.kill(os.getppid(), 0)", id="a signal to the parent"),
        pytest.param("os.pidfd_open(os.getppid())", id="a hold on the parent"),
        pytest.param(
            "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CORE)",
            id="the parent's limits",
        ),
        pytest.param("os.setpriority(os.PRIO_PGRP, 0, 19)", id="the group's priority"),
        pytest.param("os.sched_setaffinity(0, {0})", id="other cores"),
        pytest.param(
            "import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())", id="a signal by a pipe"
        ),
    ],
)
def test_other_processes_are_out_of_reach(code: str) -> None:
    script = f"{code}\nprint('done')"
    assert "done" in outcome("", script)
    assert outcome(NETWORK, script) == "EPERM"


def test_an_engine_may_still_step_back_in_the_box() -> None:
    assert outcome(ALL, "print(os.nice(3))") == str(min(19, os.nice(0) + 3))


def test_threads_start_in_the_box() -> None:
    script = """
        import threading
        thread = threading.Thread(target=print, args=("ran",))
        thread.start()
        thread.join()
        """
    assert outcome(ALL, script) == "ran"


def test_a_thread_from_before_is_in_the_box_too() -> None:
    before = textwrap.dedent("""
        import errno, socket, threading
        closed = threading.Event()
        def try_it():
            closed.wait()
            try:
                socket.socket()
            except OSError as error:
                print(errno.errorcode[error.errno])
        thread = threading.Thread(target=try_it)
        thread.start()
        """)
    assert outcome(before + NETWORK, "closed.set(); thread.join()") == "EPERM"


def test_an_abort_still_ends_the_process() -> None:
    assert child(ALL, "os.abort()").returncode == -signal.SIGABRT


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("open('new', 'w')", id="make"),
        pytest.param("open('old', 'w')", id="empty"),
        pytest.param("open('old', 'r+')", id="write"),
        pytest.param("open('old', 'a')", id="append"),
        pytest.param("os.truncate('old', 0)", id="truncate"),
        pytest.param("os.unlink('old')", id="remove"),
        pytest.param("os.rename('old', 'other')", id="rename"),
        pytest.param("os.link('old', 'other')", id="link"),
        pytest.param("os.symlink('old', 'other')", id="symlink"),
        pytest.param("os.mkdir('folder')", id="make a folder"),
        pytest.param("os.chmod('old', 0o600)", id="change rights"),
        pytest.param("os.utime('old')", id="change times"),
    ],
)
def test_files_are_changed_outside_of_the_box_only(code: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("kept")
    script = f"{code}\nprint('done')"
    assert outcome(CHANGES, script, tmp_path) == "EPERM"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "kept"
    assert outcome("", script, tmp_path) == "done"


def test_files_are_read_in_the_box(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    assert outcome(ALL, "print(open('old').read())", tmp_path) == "kept"


def test_decoding_and_encoding_work_in_the_box() -> None:
    script = """
        from fractions import Fraction
        encoder = av.CodecContext.create("libx264", "w")
        encoder.width, encoder.height, encoder.pix_fmt = 320, 180, "yuv420p"
        encoder.time_base, encoder.thread_count = Fraction(1, 30), 2
        decoder = av.CodecContext.create("h264", "r")
        decoder.thread_count = 2
        graph = av.filter.Graph()
        packets = []
        for number in range(10):
            frame = av.VideoFrame(320, 180, "yuv420p")
            frame.pts = number
            packets += encoder.encode(frame)
        packets += encoder.encode(None)
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
        print(len(frames + decoder.decode(None)))
        """
    assert outcome("import av; " + ALL, script) == "10"


def test_the_module_brings_nothing_of_the_network_along() -> None:
    script = "print(*sorted({'asyncio', 'socket', 'ssl', 'threading', 'av'} & set(sys.modules)))"
    assert outcome("", script) == ""


THREAD = 0x003D_0F00
NETWORK_CALLS = [
    pytest.param((41, 198), (), EPERM, id="socket"),
    pytest.param((42, 203), (), EPERM, id="connect"),
    pytest.param((49, 200), (), EPERM, id="bind"),
    pytest.param((425, 425), (), EPERM, id="io_uring_setup"),
    pytest.param((101, 117), (), EPERM, id="ptrace"),
    pytest.param((59, 221), (), EPERM, id="execve"),
    pytest.param((56, 220), (17,), EPERM, id="clone of a process"),
    pytest.param((56, 220), (THREAD,), ALLOW, id="clone of a thread"),
    pytest.param((435, 435), (), ENOSYS, id="clone3"),
    pytest.param((62, 129), (1,), EPERM, id="kill another"),
    pytest.param((62, 129), (0,), EPERM, id="kill the group"),
    pytest.param((62, 129), (OWN,), ALLOW, id="kill itself"),
    pytest.param((234, 131), (OWN,), ALLOW, id="tgkill itself"),
    pytest.param((234, 131), (1,), EPERM, id="tgkill another"),
    pytest.param((302, 261), (0,), ALLOW, id="own limits"),
    pytest.param((302, 261), (OWN,), ALLOW, id="own limits by number"),
    pytest.param((302, 261), (1,), EPERM, id="another's limits"),
    pytest.param((141, 140), (0, 0, 19), ALLOW, id="own priority"),
    pytest.param((141, 140), (0, 1, 19), EPERM, id="another's priority"),
    pytest.param((141, 140), (1, 0, 19), EPERM, id="the group's priority"),
    pytest.param((141, 140), (2, 0, 19), EPERM, id="the user's priority"),
    pytest.param((144, 119), (0, 5), EPERM, id="sched_setscheduler"),
    pytest.param((203, 122), (0,), EPERM, id="sched_setaffinity"),
    pytest.param((251, 30), (1, 0), EPERM, id="ioprio_set"),
    pytest.param((72, 25), (0, 8, 1), EPERM, id="fcntl F_SETOWN"),
    pytest.param((72, 25), (0, 10, 9), EPERM, id="fcntl F_SETSIG"),
    pytest.param((72, 25), (0, 15), EPERM, id="fcntl F_SETOWN_EX"),
    pytest.param((72, 25), (0, 3), ALLOW, id="fcntl F_GETFL"),
    pytest.param((16, 29), (0, 0x8901), EPERM, id="ioctl FIOSETOWN"),
    pytest.param((16, 29), (0, 0x8902), EPERM, id="ioctl SIOCSPGRP"),
    pytest.param((16, 29), (0, 0x5412), EPERM, id="ioctl TIOCSTI"),
    pytest.param((16, 29), (0, 0x5401), ALLOW, id="ioctl TCGETS"),
    pytest.param((157, 167), (1, 0), EPERM, id="prctl PR_SET_PDEATHSIG"),
    pytest.param((157, 167), (38, 1), ALLOW, id="prctl PR_SET_NO_NEW_PRIVS"),
    pytest.param((112, 157), (), EPERM, id="setsid"),
    pytest.param((29, 194), (), EPERM, id="shmget"),
    pytest.param((240, 180), (), EPERM, id="mq_open"),
    pytest.param((0, 63), (), ALLOW, id="read"),
    pytest.param((257, 56), (0, 0, 1), ALLOW, id="openat, which is the other filter's"),
    pytest.param((447, 447), (), EPERM, id="memfd_secret"),
    pytest.param((206, 0), (), EPERM, id="io_setup"),
    pytest.param((209, 2), (), EPERM, id="io_submit"),
    pytest.param((294, 26), (), EPERM, id="inotify_init1"),
    pytest.param((254, 27), (), EPERM, id="inotify_add_watch"),
    pytest.param((300, 262), (), EPERM, id="fanotify_init"),
    pytest.param((433, 433), (), EPERM, id="fspick"),
    pytest.param((464, 464), (), EPERM, id="getxattrat"),
    pytest.param((465, 465), (), EPERM, id="listxattrat"),
    pytest.param((467, 467), (), EPERM, id="open_tree_attr"),
    pytest.param((468, 468), (), EPERM, id="file_getattr"),
    pytest.param((471, 471), (), ENOSYS, id="a call that is newer than the list"),
    pytest.param((157, 167), (35, 1), EPERM, id="prctl PR_SET_MM"),
    pytest.param((157, 167), (15, 1), ALLOW, id="prctl PR_SET_NAME"),
    pytest.param((16, 29), (0, 0x40086602), EPERM, id="ioctl FS_IOC_SETFLAGS"),
    pytest.param((72, 25), (0, 1030, 3), ALLOW, id="fcntl F_DUPFD_CLOEXEC"),
    pytest.param((72, 25), (0, 1033, 3), EPERM, id="fcntl F_ADD_SEALS"),
    pytest.param((317, 277), (1, 1), ALLOW, id="seccomp with a further filter"),
    pytest.param((317, 277), (3, 0), EPERM, id="seccomp SECCOMP_GET_NOTIF_SIZES"),
]
CHANGE_CALLS = [
    pytest.param((257, 56), (0, 0, os.O_RDONLY | os.O_CLOEXEC), ALLOW, id="openat to read"),
    pytest.param((257, 56), (0, 0, os.O_WRONLY), EPERM, id="openat to write"),
    pytest.param((257, 56), (0, 0, os.O_RDWR), EPERM, id="openat to read and write"),
    pytest.param((257, 56), (0, 0, os.O_CREAT), EPERM, id="openat to make"),
    pytest.param((437, 437), (), ENOSYS, id="openat2"),
    pytest.param((263, 35), (), EPERM, id="unlinkat"),
    pytest.param((316, 276), (), EPERM, id="renameat2"),
    pytest.param((463, 463), (), EPERM, id="setxattrat"),
    pytest.param((466, 466), (), EPERM, id="removexattrat"),
    pytest.param((469, 469), (), EPERM, id="file_setattr"),
    pytest.param((1, 64), (), ALLOW, id="write"),
    pytest.param((41, 198), (), ALLOW, id="socket, which is the other filter's"),
]


@pytest.mark.parametrize("machine", list(ARCHITECTURE))
@pytest.mark.parametrize(("numbers", "arguments", "expected"), NETWORK_CALLS)
def test_the_network_filter_answers_each_call(
    machine: str, numbers: tuple[int, int], arguments: tuple[int, ...], expected: int
) -> None:
    number = numbers[list(ARCHITECTURE).index(machine)]
    program = network_filter(machine, OWN)
    assert answer(program, ARCHITECTURE[machine], number, *arguments) == expected


@pytest.mark.parametrize("machine", list(ARCHITECTURE))
@pytest.mark.parametrize(("numbers", "arguments", "expected"), CHANGE_CALLS)
def test_the_change_filter_answers_each_call(
    machine: str, numbers: tuple[int, int], arguments: tuple[int, ...], expected: int
) -> None:
    number = numbers[list(ARCHITECTURE).index(machine)]
    program = change_filter(machine)
    assert answer(program, ARCHITECTURE[machine], number, *arguments) == expected


@pytest.mark.parametrize("program", [network_filter("x86_64", OWN), change_filter("x86_64")])
def test_calls_by_foreign_numbers_kill(program: bytes) -> None:
    assert answer(program, 0x4000_0003, 102) == KILL  # i386: socketcall
    assert answer(program, ARCHITECTURE["x86_64"], 0x4000_0000 | 41) == KILL  # x32: socket
    assert answer(program, ARCHITECTURE["aarch64"], 63) == KILL


def test_a_machine_without_a_list_is_refused_in_a_sentence() -> None:
    with pytest.raises(SandboxError, match="no list of system calls for riscv64"):
        network_filter("riscv64", OWN)
    with pytest.raises(SandboxError, match="no list of system calls for riscv64"):
        change_filter("riscv64")


@ON_X86_64
def test_a_kernel_that_refuses_the_filter_is_reported_in_a_sentence() -> None:
    assert outcome(stricter(errno.EPERM), "seccomp.deny_network()") == "EPERM"
    completed = child(stricter(errno.EPERM), "seccomp.deny_network()")
    words = "SandboxError: [Errno 1] cannot set a seccomp filter: Operation not permitted"
    assert words in completed.stderr


@ON_X86_64
def test_the_older_door_serves_where_the_newer_is_not_known() -> None:
    box = stricter(errno.ENOSYS) + NETWORK
    assert outcome(box, "import socket; socket.socket()") == "EPERM"


@ON_X86_64
def test_the_older_door_is_not_taken_where_threads_would_stay_outside() -> None:
    thread = """
import threading
closed = threading.Event()
thread = threading.Thread(target=closed.wait)
thread.start()
"""
    script = "try:\n    seccomp.deny_network()\nfinally:\n    closed.set()"
    assert outcome(stricter(errno.ENOSYS) + thread, script) == "ENOSYS"
