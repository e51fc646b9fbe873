"""The output of a program on its terminal, read while it runs."""

import os
import re
import select
import time
from typing import IO

from tests.support.waiting import SCALE


class Terminal:
    """A program's output since its start."""

    def __init__(self, output: IO[str]) -> None:
        self._handle = output.fileno()
        self._at = 0  # the end of the last match
        self.text = ""

    def until(self, words: str, within: float) -> re.Match[str]:
        """Wait for the next match of the regular expression `words`.

        `within` is in seconds, scaled on slow machines.
        """
        deadline = time.monotonic() + within * SCALE
        while not (match := re.compile(rf"{words}.*\n").search(self.text, self._at)):
            assert time.monotonic() < deadline, f"not within {within} s: {words!r} in {self.text!r}"
            if select.select([self._handle], [], [], 0.2)[0]:
                self.text += os.read(self._handle, 65536).decode()
        self._at = match.end()
        return match
