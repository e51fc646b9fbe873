"""Engines that begin at once (`tests.support.forks`), and what they say."""

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

from tests.support.forks import fork

__all__ = ["run_engine"]

_ENGINE: Final = "transcode.engine.main:main"


def run_engine(
    arguments: Sequence[str], source: IO[bytes] | bytes, *, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run an engine; return its exit status, its output and its standard error.

    It reads that file, or those bytes through a pipe. It is killed after so many seconds.
    """
    with contextlib.ExitStack() as pipes, ThreadPoolExecutor(2) as threads:
        output, output_end = _pipe(pipes)
        errors, errors_end = _pipe(pipes)
        input_end, entrance = _pipe(pipes) if isinstance(source, bytes) else (source, None)
        files = (input_end.fileno(), output_end.fileno(), errors_end.fileno())
        engine = fork(_ENGINE, arguments, files)
        watchdog = threading.Timer(seconds, os.kill, (engine.pid, signal.SIGKILL))
        watchdog.start()
        output_end.close()
        errors_end.close()
        complaining = threads.submit(errors.read)
        if isinstance(source, bytes) and entrance is not None:
            input_end.close()
            threads.submit(_feed, entrance, source)
        said = output.read()
        status = engine.wait()
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
