"""What a program prints to its terminal, read while it runs."""

import os
import re
import select
import time
from typing import IO

from tests.support.waiting import SCALE

__all__ = ["Terminal"]


class Terminal:
    """The output of a program, from the first line on."""

    def __init__(self, output: IO[str]) -> None:
        self._handle = output.fileno()
        self._at = 0  # what comes later was not found yet
        self.text = ""

    def until(self, words: str, within: float) -> re.Match[str]:
        """Wait for a line that has these words, after the last one that was waited for.

        `words` are a regular expression; `within` are seconds, scaled on slow machines.
        """
        deadline = time.monotonic() + within * SCALE
        while not (found := re.compile(rf"{words}.*\n").search(self.text, self._at)):
            assert time.monotonic() < deadline, f"not within {within} s: {words!r} in {self.text!r}"
            if select.select([self._handle], [], [], 0.2)[0]:
                self.text += os.read(self._handle, 65536).decode()
        self._at = found.end()
        return found
