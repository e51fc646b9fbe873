"""A file that is whole, on its way to being a video: the one way in, whatever brought it.

However a file comes (a form, a resumable upload, an address it is fetched from), it stands at a
temporary place when it is whole. `landing` looks into it in a box and says what its video begins
with; the file is then renamed to `Landed.source`, and the catalog writes video, resolutions, job
and event in one transaction (`storage.catalog.videos.creation`).
"""

from pathlib import Path
from typing import Protocol

import msgspec

from media.ladder import BOX_NUMBERS, STANDARD_LABELS, ladder_for
from storage.catalog.records.videos import Landed

__all__ = [
    "FileFacts",
    "FileRefused",
    "Probe",
    "probe_file",
    "probe_source",
    "source_file",
    "standard_rungs",
]


class FileRefused(Exception):
    """Nothing can be made of an uploaded file; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a video file is: its length in microseconds, its upright picture's size in pixels."""

    length_us: int
    width: int
    height: int


class Probe(Protocol):
    """Looks into an uploaded video file, in a box."""

    async def __call__(self, file: Path, /) -> FileFacts | None:
        """Return what the file is; None where that takes too long to wait for.

        Raises:
            FileRefused: it is no media, or none that can be made anything of.
        """
        ...


async def probe_file(probe: Probe, file: Path) -> FileFacts:
    """Return what a file is; sizes of 0 where the probe takes too long.

    Raises:
        FileRefused: it is no media.
    """
    return await probe(file) or FileFacts(length_us=0, width=0, height=0)


async def probe_source(probe: Probe, file: Path, source: str, size: int) -> Landed:
    """Look into a whole file of `size` bytes, which is to stand at the address `source`.

    Raises:
        FileRefused: it is no media.
    """
    return source_file(await probe_file(probe, file), source, size)


def source_file(facts: FileFacts, source: str, size: int) -> Landed:
    """Return what a video begins with that gets a file of `size` bytes at the address `source`."""
    return Landed(
        source=source,
        size=size,
        length_us=facts.length_us,
        width=facts.width,
        height=facts.height,
        rungs=standard_rungs(facts),
    )


def standard_rungs(facts: FileFacts) -> list[tuple[int, int, int]]:
    """Return the resolutions that a video of this size is to have: number, width, height."""
    if not facts.width or not facts.height:
        return []
    ladder = ladder_for(facts.width, facts.height, STANDARD_LABELS)
    return [(BOX_NUMBERS[rung.name], rung.width, rung.height) for rung in ladder.renditions]
