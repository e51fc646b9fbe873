"""Probes complete files before they become videos.

However a file arrives (a form, a resumable upload, an import from an address), it is complete at a
temporary path first. `probe_source` inspects it in a sandboxed child process and returns the facts
that its video starts with. The caller then renames the file to `VideoFile.source`, and the catalog
writes video, resolutions, job and event in one transaction (`storage.catalog.videos.creation`).
"""

from pathlib import Path
from typing import Protocol

import msgspec

from media.ladder import BOX_NUMBERS, STANDARD_LABELS, ladder_for
from storage.catalog.records.videos import VideoFile


class FileRefused(Exception):
    """No video can be made of an uploaded file; `reason` is a sentence for its owner."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Length in microseconds and size in pixels of a video file, after rotation to upright."""

    length_us: int
    width: int
    height: int


class Probe(Protocol):
    """Inspects an uploaded video file in a sandboxed child process."""

    async def __call__(self, file: Path, /) -> FileFacts | None:
        """Return the facts about a file, or None if the probe timed out.

        Raises:
            FileRefused: the file is not media, or not media that can be transcoded.
        """
        ...


async def probe_file(probe: Probe, file: Path) -> FileFacts:
    """Return the facts about a file, all 0 if the probe timed out.

    Raises:
        FileRefused: the file is not media.
    """
    return await probe(file) or FileFacts(length_us=0, width=0, height=0)


async def probe_source(probe: Probe, file: Path, source: str, size: int) -> VideoFile:
    """Probe a complete file of `size` bytes that will be stored at the address `source`.

    Raises:
        FileRefused: the file is not media.
    """
    return source_file(await probe_file(probe, file), source, size)


def source_file(facts: FileFacts, source: str, size: int) -> VideoFile:
    """Describe a probed file of `size` bytes at the address `source` for the catalog."""
    return VideoFile(
        source=source,
        size=size,
        length_us=facts.length_us,
        width=facts.width,
        height=facts.height,
        rungs=standard_rungs(facts),
    )


def standard_rungs(facts: FileFacts) -> list[tuple[int, int, int]]:
    """Return the standard resolutions for a video of this size: number, width, height."""
    if not facts.width or not facts.height:
        return []
    ladder = ladder_for(facts.width, facts.height, STANDARD_LABELS)
    return [(BOX_NUMBERS[rung.name], rung.width, rung.height) for rung in ladder.renditions]
