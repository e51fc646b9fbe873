"""Who is told what a run lists, as it lists it."""

from collections.abc import Mapping
from typing import Protocol

from storage.live.run_state import RunNotes, Step

__all__ = ["Listener"]


class Listener(Protocol):
    """Is told of a run's steps. No call waits or fails: viewers of the run come first."""

    def listed(self, step: Step, notes: RunNotes, codecs: Mapping[str, str]) -> None:
        """Take note of a step that is listed, with the notes that list it.

        `codecs` is the coding of each rendition, where that is known.
        """
        ...

    def ended(self) -> None:
        """Take note that the run is over for its viewers."""
        ...
