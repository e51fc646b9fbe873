"""The command `headend` as it is installed: loads `headend.cli` and calls it."""

import contextlib
import gc
import logging
import os
import sys
from importlib import import_module
from typing import NoReturn


def run() -> NoReturn:
    """Run the command that the arguments name, and end the process without tearing it down.

    The threads of the client of buckets outlive their last request. One that is still on its way
    back from Python when the interpreter is torn down aborts the process, whatever its exit status
    was to be: on a busy machine, 16 of 250 programs that ended right after a request.
    """
    status: object = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nothing reads it any longer
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def main() -> None:
    """Run the command that the arguments name; it raises `SystemExit`.

    What is loaded here stays until the process ends. The garbage collector would scan all of it
    again and again meanwhile, which took a quarter of a start.
    """
    gc.disable()
    cli = import_module("headend.cli")
    gc.freeze()
    gc.enable()
    cli.main()
