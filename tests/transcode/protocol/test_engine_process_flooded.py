"""Every kind of engine, controlled by a file, floods its parent: real children on a real pipe."""

import asyncio
import logging
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

import pytest
from _pytest.mark import ParameterSet

from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.hls.webvtt import Cue
from media.ladder import Rendition
from tests.support.transcode.flooding_engine import MIB, flood_engines, measured_growth
from tests.support.waiting import SCALE
from transcode.engine.main import SANDBOXES
from transcode.protocol.engine_process import spawn_engine
from transcode.protocol.file_messages import Ready, SpanOrder, SubtitleTrack, Surveyed
from transcode.protocol.messages import (
    BytesRead,
    EngineReport,
    EpochFinished,
    Placed,
    Poster,
    Posters,
    Prepared,
    Previews,
    Probed,
    Progress,
    Refused,
    SoundMoved,
    Spliced,
    TakenOver,
    Trouble,
    WireError,
    pack,
)
from transcode.protocol.report_bounds import REPORT_BOUNDS
from transcode.protocol.watch_messages import MOST_FINDINGS, Compared, Found, Judged

pytestmark = pytest.mark.usefixtures("children_start")

MEDIA_KINDS = [kind for kind, bounds in REPORT_BOUNDS.items() if Part in bounds.most]
# A part is read into a buffer, decoded, and kept by the caller with others of its segment.
MOST_GROWTH = dict.fromkeys(REPORT_BOUNDS, 160 * MIB) | dict.fromkeys(MEDIA_KINDS, 448 * MIB)
FOUND = Found(source=0, kind="black", verdict="fault", seconds=1e7)
SPAN = SpanOrder(
    rungs=(Rendition(name="720p", width=2, height=2, rate=1),) * 8,
    sequence=0,
    cuts=(0,) * 99,
    end=0,
    until=0,
    before=0,
    key=0,
    pictures=0,
    offset=0,
    rate=0,
)


def segment(duration: int = 0, size: int = 0) -> Segment:
    return Segment(
        rendition="720p", sequence=0, epoch=0, start=0, duration=duration, size=size, frames=0,
        parts=0, init=0, discontinuity=False,
    )  # fmt: skip


def part(data: bytes) -> Part:
    return Part(rendition="720p", sequence=0, index=0, duration=0, independent=True, data=data)


TEXT = "x" * 100_000
NAMES = tuple(str(number) for number in range(100_000))
NUMBERED = dict.fromkeys(NAMES, 1)
POSTER = Poster(label="720p", width=2, height=2, data=bytes(11 * MIB))
# Of each type of report: one that is short, and some that are as large as they come or larger.
REPORTS: dict[type[EngineReport], Sequence[EngineReport]] = {
    Prepared: [
        Prepared(epoch=0, names=(), reused=None),
        Prepared(epoch=0, names=NAMES, reused=None),
    ],
    InitSection: [
        InitSection(rendition="720p", number=0, codecs="", data=bytes(size)) for size in (0, 65_000)
    ]
    + [
        InitSection(rendition="720p", number=0, codecs="", data=bytes(32 * MIB)),
        InitSection(rendition="720p", number=0, codecs=TEXT, data=b""),
    ],
    EpochStart: [EpochStart(epoch=1 << 62, start=1 << 62, came_us=1 << 62)],
    SegmentStart: [
        SegmentStart(
            rendition=name, sequence=0, epoch=0, start=0, init=0, discontinuity=False
        )
        for name in ("720p", TEXT)
    ],
    GapStart: [GapStart(rendition=name, sequence=0) for name in ("720p", TEXT)],
    Part: [part(b""), part(bytes(10 * MIB)), part(bytes(63 * MIB))],
    Segment: [segment(), segment(1 << 60)],
    Spliced: [
        Spliced(epoch=0, reused=None),
        Spliced(epoch=0, reused=TEXT),
    ],
    Placed: [Placed(epoch=0, offset=1)],
    TakenOver: [TakenOver(epoch=0)],
    SoundMoved: [SoundMoved(epoch=0, offset_ms=1)],
    EpochFinished: [
        EpochFinished(epoch=0, end=0, frames_in=0, frames_out=names) for names in ({}, NUMBERED)
    ],
    Progress: [
        Progress(
            epoch=0, taken=0, made=0, frames=0, cpu_ms=0, memory_bytes=0, rung_cpu_ms=names
        )
        for names in ({}, NUMBERED)
    ],
    BytesRead: [BytesRead(total=1)],
    Trouble: [Trouble(what="", detail=""), Trouble(what="x", detail=TEXT)],
    Probed: [Probed(container="", length_us=0), Probed(container=TEXT, length_us=0)],
    Poster: [Poster(label="", width=2, height=2, data=b""), POSTER],
    Posters: [Posters(posters=posters) for posters in ((), (POSTER,) * 2, (POSTER,) * 5)],
    Previews: [
        Previews(width=2, height=2, columns=1, per_sheet=1, times=times, sheets=sheets)
        for times, sheets in (
            ((0,), ()),
            ((0,) * 11 * MIB, ()),
            ((0,), (b"",) * 5 * MIB),
            ((0,), (bytes(11 * MIB),)),
        )
    ],
    Refused: [Refused(reason=""), Refused(reason=TEXT), Refused(reason="x" * 60 * MIB)],
    Surveyed: [
        Surveyed(),
        Surveyed(spans=(SPAN,) * 2_000),
        Surveyed(spans=(SPAN,) * 20_000),
        Surveyed(reason=TEXT),
    ],
    Ready: [Ready(names=()), Ready(names=NAMES)],
    SubtitleTrack: [
        SubtitleTrack(language="", title="", forced=False, cues=cues)
        for cues in (
            (),
            (Cue(0, 0, ""),) * 100_000,
            (Cue(0, 0, "x" * 9 * MIB + "\U0001f600"),),
            (Cue(0, 0, "x" * 60 * MIB),),
        )
    ],
    Compared: [Compared(reference=0, other=0, offset_us=1 << 60)],
    Judged: [
        Judged(found=()),
        Judged(found=(FOUND,) * MOST_FINDINGS),
    ],
}  # fmt: skip


async def flooded(kind: str) -> tuple[list[EngineReport], str]:
    """Return what a caller keeps of an engine's reports, and the error.

    Of an engine that makes media, that is the parts of the unfinished segment, and the newest
    report of each other type; of any other engine, everything.
    """
    kept: list[EngineReport] = []
    newest: dict[type[EngineReport], EngineReport] = {}
    makes_media = kind in MEDIA_KINDS
    async with asyncio.timeout(60 * SCALE), spawn_engine(kind, "Ab3") as engine:
        with pytest.raises(WireError) as caught:
            async for report in engine.reports():
                if isinstance(report, Segment):
                    kept.clear()
                elif makes_media and not isinstance(report, Part):
                    newest[type(report)] = report
                else:
                    kept.append(report)
        assert await engine.wait() == -signal.SIGKILL
    return [*kept, *newest.values()], str(caught.value)


def mostly(kinds: Iterable[str], *now: str) -> list[ParameterSet]:
    """Return all kinds of engines, of which `make prove` alone tries those that are not named."""
    return [pytest.param(kind, marks=[] if kind in now else [pytest.mark.prove]) for kind in kinds]


def test_all_kinds_of_engines_and_all_reports_are_flooded() -> None:
    assert set(REPORT_BOUNDS) == set(SANDBOXES)
    assert set(REPORTS) == set(get_args(EngineReport))
    assert {each for bounds in REPORT_BOUNDS.values() for each in bounds.most} == set(REPORTS)


@pytest.mark.parametrize("kind", REPORT_BOUNDS)
@pytest.mark.parametrize("all_examples", [False, pytest.param(True, marks=pytest.mark.prove)])
async def test_a_flood_of_any_report_ends_the_engine_in_little_memory(
    all_examples: bool,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "security")
    for type_, examples in REPORTS.items():
        # The shortest and the longest; what a kind may not report is refused by its type, in which
        # the kinds do not differ.
        own = type_ in REPORT_BOUNDS[kind].most
        few = (*(examples[:1] if own or kind == "still" else ()), *(examples[-1:] if own else ()))
        if type_ is Part and kind != "live":
            few = examples[:2]  # the longest parts take a second of CPU, and are read alike
        for number, example in enumerate(examples if all_examples else few):
            caplog.clear()
            with monkeypatch.context() as patched:
                flood_engines(patched, tmp_path, [example])
                del example
                with measured_growth() as growth:
                    kept, error = await flooded(kind)
                    del kept
            case = f"{type_.__name__} {number}: {error}"
            assert growth.peak < MOST_GROWTH[kind], case
            is_foreign = "of an engine for" in error or error.startswith("a frame of")
            assert type_ in REPORT_BOUNDS[kind].most or is_foreign, case
            (line,) = [each for each in caplog.records if each.name == "security"]
            assert line.message == "engine lost"
            assert line.__dict__["cause"] == error


@pytest.mark.parametrize("kind", [*mostly(REPORT_BOUNDS, "live", "still"), "unknown"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param((0xFFFF_FFFF).to_bytes(4, "big") + bytes(99), id="a frame of 4 GiB"),
        pytest.param((1 << 26).to_bytes(4, "big") + bytes(MIB), id="a frame of zeros"),
        pytest.param(b"\0\0\0\0", id="empty frames"),
        pytest.param(b"\0\0\0\1\x80", id="frames without a type"),
        pytest.param(b"\0\0\0\7\x81\xa4type\xbf", id="a type that is cut off"),
        pytest.param(pack(Refused(reason=""))[:10], id="a frame that is cut off"),
    ],
)
async def test_a_flood_of_frames_that_are_no_reports_ends_the_engine(
    kind: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood_engines(monkeypatch, tmp_path, data)
    with measured_growth() as growth:
        kept, _ = await flooded(kind)
    assert kept == []
    assert growth.peak < MOST_GROWTH.get(kind, 8 * MIB)


async def test_a_kind_that_is_declared_nowhere_may_report_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood_engines(monkeypatch, tmp_path, [BytesRead(total=1)])
    kept, error = await flooded("unknown")
    assert (kept, "a frame of" in error) == ([], True)


@pytest.mark.parametrize("kind", mostly(MEDIA_KINDS, "live", "span"))
@pytest.mark.parametrize(
    ("reports", "error"),
    [
        pytest.param([part(b"")], "does not end", id="parts without an end"),
        pytest.param([part(bytes(MIB))], "unfinished segments", id="large parts without an end"),
        pytest.param([segment()], "short segments", id="segments without media"),
        pytest.param([segment(-1)], "short segments", id="segments that end before they begin"),
        pytest.param(
            [REPORTS[InitSection][0], REPORTS[InitSection][0], segment(180_000)],
            "init sections",
            id="init sections",
        ),
        pytest.param(
            [
                SegmentStart(
                    rendition="0p", sequence=0, epoch=0, start=0, init=0, discontinuity=False
                )
            ],
            "no ladder",
            id="renditions of no ladder",
        ),
    ],
)
async def test_media_are_bounded_segment_by_segment(
    kind: str,
    reports: list[EngineReport],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flood_engines(monkeypatch, tmp_path, reports)
    with measured_growth() as growth:
        _, message = await flooded(kind)
    assert error in message
    assert growth.peak < 192 * MIB


async def test_gaps_of_a_live_run_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood_engines(monkeypatch, tmp_path, [GapStart(rendition="720p", sequence=0)])
    _, message = await flooded("live")
    assert "does not end" in message


async def test_a_flood_on_standard_error_is_cut_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A million lines a second: the event loop still takes its turns."""
    flood_engines(monkeypatch, tmp_path, b"y" * 2_000 + b"\n" * 1_000_000, descriptor=2)
    longest = 0.0
    with measured_growth() as growth:
        async with spawn_engine("still", "Ab3") as engine:
            began = time.monotonic()
            while time.monotonic() - began < 1.0:
                turn = time.monotonic()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - turn)
            engine.kill()
    texts = [each.__dict__["text"] for each in caplog.records if each.message == "engine output"]
    assert len(texts) == 20
    assert max(map(len, texts)) == 500
    assert longest < 0.25 * SCALE
    assert growth.peak < 8 * MIB
