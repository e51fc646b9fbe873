"""`python -m transcode.engine`: see `transcode.engine.main`.

A finished engine exits without tearing down the interpreter and FFmpeg's libraries, which would
cost a short engine a seventh of its processor time. The garbage collector, which would scan all
loaded modules again and again, would cost as much.
"""

import contextlib
import gc
import os
import sys
import threading
from importlib import import_module

gc.disable()
engine = import_module("transcode.engine.main")
gc.freeze()
gc.enable()
status: int = engine.main(sys.argv[1:])
for thread in threading.enumerate():
    if thread is not threading.current_thread() and not thread.daemon:
        thread.join()
for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError):  # the reader has closed the pipe
        stream.flush()
os._exit(status)
