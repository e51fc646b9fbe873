"""One engine over one file: refusals, failures, and errors of the callback."""

import contextlib
import logging
import os
import resource
import signal
from pathlib import Path

import pytest

from media.hls.segment import InitSection, Part, Segment
from storage.objects.base import ObjectError
from storage.objects.disk import DiskObjects
from storage.workers.leased_task import AttemptFailed
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.transcode.scripted_engine import script_engines
from tests.transcode.vod.test_job import engines
from transcode.inspect.probe import NotMedia, ProbeTimeout, probe
from transcode.protocol.file_messages import AssetOrder
from transcode.protocol.messages import EngineReport, EpochFinished, Trouble
from transcode.vod.asset_plan import order_for
from transcode.vod.engine_task import run_engine, warning_sentences
from transcode.vod.rendition_store import RenditionStore

pytestmark = pytest.mark.usefixtures("children_start")


async def ignore(_: EngineReport) -> None:
    """Take a report and do nothing with it."""


async def test_an_engine_reports_until_it_has_finished(short_film: Path) -> None:
    reports: list[EngineReport] = []

    async def keep(report: EngineReport) -> None:
        reports.append(report)

    outcome = await run_engine("asset", "Ab3", AssetOrder(ladder=None), short_film, keep)
    assert outcome.finished
    assert outcome.refused is None
    assert reports


async def test_a_refused_file_is_no_media(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    with pytest.raises(NotMedia):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), tmp_path / "a.mp4", ignore)


async def test_an_engine_that_is_killed_fails_the_attempt(short_film: Path) -> None:
    async def kill(_: EngineReport) -> None:
        for engine in engines():
            os.kill(engine, signal.SIGKILL)

    with pytest.raises(AttemptFailed, match="broke off"):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), short_film, kill)
    assert engines() == []


async def test_an_engine_that_takes_too_much_processor_time_is_the_files_fault(
    short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def end(_: EngineReport) -> None:
        for engine in engines():
            os.kill(engine, signal.SIGXCPU)  # as the kernel does at the limit

    caplog.set_level(logging.INFO, "security")
    with pytest.raises(NotMedia, match="far more processor time"):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), short_film, end)
    assert [each.message for each in caplog.records if each.name == "security"] == ["engine lost"]


async def test_an_engine_limits_its_processor_time_by_the_file(short_film: Path) -> None:
    """5 s of 854x480: minutes, and no hours."""
    limits: set[int] = set()

    async def look(report: EngineReport) -> None:
        if isinstance(report, Part | Segment):  # the survey is over
            for engine in engines():
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    limits.add(resource.prlimit(engine, resource.RLIMIT_CPU)[0])

    order = order_for(await probe(short_film))
    await run_engine("asset", "Ab3", order, short_film, look)
    assert limits
    assert all(300 < each < 900 for each in limits)


async def test_an_error_of_the_callback_ends_the_engine(short_film: Path) -> None:
    async def refuse(_: EngineReport) -> None:
        raise ObjectError("a", "the disk is full")

    with pytest.raises(ObjectError):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), short_film, refuse)
    assert engines() == []


async def test_a_file_that_the_disk_does_not_give_is_no_fault_of_the_file() -> None:
    """The memory of a process can be opened, and not be read where nothing is mapped."""
    with pytest.raises(OSError, match="could not read"):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), Path("/proc/self/mem"), ignore)
    with pytest.raises(ProbeTimeout, match="could not be read"):
        await probe(Path("/proc/self/mem"))


async def test_a_file_that_does_not_exist_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_engine("asset", "Ab3", AssetOrder(ladder=None), tmp_path / "none.mp4", ignore)


async def test_troubles_that_have_no_sentence_are_not_counted(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = [
        Trouble(what=what, detail="", count=2)
        for what in ("picture damaged", "anything", "picture damaged")
    ]
    finished = EpochFinished(epoch=0, end=0, frames_in=0, frames_out={})
    script_engines(monkeypatch, tmp_path, [*troubles, finished])
    outcome = await run_engine("asset", "Ab3", AssetOrder(ladder=None), short_film, ignore)
    assert outcome.warnings == {"picture damaged": 4}


async def test_troubles_of_one_kind_are_one_sentence() -> None:
    assert warning_sentences({"picture damaged": 3, "picture not decoded": 1, "unknown": 2}) == [
        "Some pictures are damaged and could not be decoded."
    ]


@pytest.mark.parametrize("kind", ["asset", "span", "video"])
@pytest.mark.parametrize("size", [0, MIB])
async def test_a_segment_without_an_end_fails_the_attempt_in_little_memory(
    kind: str,
    size: int,
    tmp_path: Path,
    short_film: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    part = Part(
        rendition="720p", sequence=0, index=0, duration=0, independent=True, data=bytes(size)
    )
    flood_engines(monkeypatch, tmp_path, [part])
    caplog.set_level(logging.INFO, "security")
    with DiskObjects(tmp_path / "objects") as objects, measured_growth() as growth:
        store = RenditionStore(objects, hash_="abcdefABCDEF", folder="1-1", names=["720p"])

        async def keep(report: EngineReport) -> None:
            if isinstance(report, InitSection | Part | Segment):
                await store.store(report)

        with pytest.raises(AttemptFailed, match="broke off"):
            await run_engine(kind, "Ab3", AssetOrder(ladder=None), short_film, keep)
    assert growth.peak < 192 * MIB
    (line,) = [each for each in caplog.records if each.name == "security"]
    assert line.message == "engine lost"
    assert engines() == []
