"""`python -m transcode.engine`: see `transcode.engine.main`.

An engine that has done its work leaves the rest to the kernel: to take the interpreter and FFmpeg's
libraries apart would cost a short engine a seventh of its processor time.
"""

import contextlib
import os
import sys
import threading

from transcode.engine.main import main

status = main(sys.argv[1:])
for thread in threading.enumerate():
    if thread is not threading.current_thread() and not thread.daemon:
        thread.join()
for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError):  # nobody reads any more
        stream.flush()
os._exit(status)
