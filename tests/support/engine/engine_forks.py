"""Engines that begin at once: forks of one process that has loaded their libraries.

Loading takes an engine longer than the media of many a test. A fork is a process of its own all the
same, with its sandbox, its pipes and its exit status. It begins where `python -m transcode.engine`
does once `main` is imported; tests of what comes before that start the command themselves.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

__all__ = ["run_engine"]

_MOST_BYTES: Final = 1 << 17  # of a call: an order for a span names each of its cuts
_one_at_a_time = threading.Lock()


def run_engine(
    arguments: Sequence[str], source: IO[bytes] | bytes, *, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run an engine; return its exit status, its output and its standard error.

    It reads that file, or those bytes through a pipe. It is killed after so many seconds.
    """
    call = json.dumps(arguments).encode()
    assert len(call) <= _MOST_BYTES
    with _one_at_a_time, contextlib.ExitStack() as pipes, ThreadPoolExecutor(2) as threads:
        output, output_end = _pipe(pipes)
        errors, errors_end = _pipe(pipes)
        input_end, entrance = _pipe(pipes) if isinstance(source, bytes) else (source, None)
        control = _forks()
        socket.send_fds(
            control, [call], [each.fileno() for each in (input_end, output_end, errors_end)]
        )
        pid = int(control.recv(_MOST_BYTES))
        watchdog = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
        watchdog.start()
        output_end.close()
        errors_end.close()
        complaining = threads.submit(errors.read)
        if isinstance(source, bytes) and entrance is not None:
            input_end.close()
            threads.submit(_feed, entrance, source)
        said = output.read()
        status = int(control.recv(_MOST_BYTES))
        watchdog.cancel()
        return status, said, complaining.result()


def _pipe(pipes: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """A pipe's ends, to read from and to write to, without buffers."""
    ends = zip(os.pipe(), ("rb", "wb"), strict=True)
    reading, writing = (pipes.enter_context(os.fdopen(end, way, 0)) for end, way in ends)
    return reading, writing


def _feed(entrance: IO[bytes], data: bytes) -> None:
    """Write all, as long as somebody reads."""
    left = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while left:
            left = left[entrance.write(left) :]
    entrance.close()


@functools.cache
def _forks() -> socket.socket:
    """Start the process that forks; return the way to it. It ends with this process."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        control.close()
        process.wait()

    atexit.register(end)
    return control


def _serve(control: socket.socket) -> None:
    """Fork an engine for each call: tell its process ID, and its exit status at its end."""
    from transcode.engine.main import main  # noqa: PLC0415  # here alone, for it is slow

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the end of the tests ends it
    gc.freeze()
    while True:
        call, files, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        if not call:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            sys.exit(main(json.loads(call)))
        for file in files:
            os.close(file)
        control.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        control.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
