"""What a video begins with once its file was probed."""

from pathlib import Path

import pytest

from storage.catalog.records.videos import VideoFile
from storage.file_intake import (
    FileFacts,
    FileRefused,
    probe_file,
    probe_source,
    source_file,
    standard_rungs,
)

FILE = Path("/nowhere/film.mp4")
FACTS = FileFacts(length_us=2_000_000, width=854, height=480)


@pytest.mark.parametrize(
    ("width", "height", "rungs"),
    [
        (0, 0, []),
        (1920, 0, []),
        (1920, 1080, [(4, 1920, 1080), (3, 1280, 720), (2, 854, 480), (1, 640, 360)]),
        (480, 854, [(2, 480, 854), (1, 360, 640)]),
        (320, 180, [(7, 320, 180)]),
    ],
)
def test_a_video_gets_the_standard_resolutions_up_to_its_own(
    width: int, height: int, rungs: list[tuple[int, int, int]]
) -> None:
    assert standard_rungs(FileFacts(length_us=1, width=width, height=height)) == rungs


async def test_a_probed_file_is_described_with_its_address_and_size() -> None:
    probed: list[Path] = []

    async def probe(file: Path, /) -> FileFacts:
        probed.append(file)
        return FACTS

    source = await probe_source(probe, FILE, "sources/x/1", 77)
    assert probed == [FILE]
    assert source == source_file(FACTS, "sources/x/1", 77)
    assert source == VideoFile(
        source="sources/x/1", size=77, length_us=2_000_000, width=854, height=480,
        rungs=[(2, 854, 480), (1, 640, 360)],
    )  # fmt: skip


async def test_a_probe_that_took_too_long_leaves_the_facts_open() -> None:
    async def probe(file: Path, /) -> FileFacts | None:
        return None

    assert await probe_file(probe, FILE) == FileFacts(length_us=0, width=0, height=0)
    source = await probe_source(probe, FILE, "sources/x/1", 77)
    assert (source.size, source.length_us, source.rungs) == (77, 0, [])


async def test_the_reason_of_a_refusal_reaches_the_caller() -> None:
    async def probe(file: Path, /) -> FileFacts:
        raise FileRefused("The file is a text.")

    with pytest.raises(FileRefused) as refused:
        await probe_source(probe, FILE, "sources/x/1", 77)
    assert refused.value.reason == "The file is a text."
