"""A file examined by a child: answers, refusals, a limit in time."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.support.e2e.slow_process import children_of
from tests.support.engine.upload_files import film
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from transcode.inspect.probe import NotMedia, ProbeTimeout, probe
from transcode.protocol.messages import BytesRead, EngineReport, Probed


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_film_is_known_in_its_time(short_film: Path) -> None:
    media = await probe(short_film)
    assert (media.width, media.height, round(media.length_us / 1e6)) == (854, 480, 5)


async def test_times_that_no_clock_can_have_are_no_length(tmp_path: Path) -> None:
    """A file that was never closed, whose last cluster says that it begins in 295 million years."""
    path = tmp_path / "a.mkv"
    coding = ("-c:v", "libx264", "-g", "10", "-f", "matroska", "-live", "1", "-write_crc32", "0")
    film(path, *coding, "-cluster_time_limit", "300", seconds=2, size=(64, 64))
    data = await asyncio.to_thread(path.read_bytes)
    # A cluster's number, size and time; then one of unknown size, its time in milliseconds.
    last = list(re.finditer(rb"\x1fC\xb6u(?:[\x80-\xff]|[\x40-\x7f].)\xe7\x82..", data, re.DOTALL))[
        -1
    ]
    far = bytes.fromhex("1f43b675 01ffffffffffffff e788") + (93 * 10**14).to_bytes(8, "big")
    await asyncio.to_thread(path.write_bytes, data[: last.start()] + far + data[last.end() :])
    media = await probe(path, seconds=60.0)
    assert (media.width, media.length_us) == (64, 0)


async def test_a_text_is_no_media_and_the_reason_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    with pytest.raises(NotMedia) as caught:
        await probe(tmp_path / "a.mp4")
    assert caught.value.reason.endswith(".")
    assert str(tmp_path) not in caught.value.reason


@pytest.mark.usefixtures("children_start")
async def test_a_probe_without_an_answer_in_time_is_ended(short_film: Path) -> None:
    before = children_of(os.getpid())
    with pytest.raises(ProbeTimeout):
        await probe(short_film, seconds=0.02)
    assert children_of(os.getpid()) == before


async def test_a_missing_file_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await probe(tmp_path / "none.mp4")


async def test_many_at_once_leave_no_descriptor_behind(short_film: Path) -> None:
    await probe(short_film)
    before = descriptors()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(probe(short_film))
    assert descriptors() == before


@pytest.mark.usefixtures("children_start")
@pytest.mark.parametrize(
    "flood", [BytesRead(total=1), Probed(container="x", length_us=1, video_codec="y" * 8_000)]
)
async def test_an_engine_that_never_ends_its_answer_is_not_believed(
    flood: EngineReport, tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Probed(container="mp4", length_us=1)
    flood_engines(monkeypatch, tmp_path, [flood], first=[answer])
    with measured_growth() as growth, pytest.raises(NotMedia, match="makes the reader fail"):
        await probe(short_film)
    assert growth.peak < 8 * MIB
