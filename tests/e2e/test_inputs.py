"""Every odd source of the table plays in Chromium, and decodes in ffmpeg without messages."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium, PlayerSample, Viewer, chromium
from tests.support.e2e.clock_video import PlaylistArchive, archiving
from tests.support.e2e.hls_reader import decoder_errors, has_ended
from tests.support.e2e.odd_sources import INPUTS, Input
from tests.support.e2e.service import ServiceProcess, fetch, without_slate
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_AT_ONCE = 3
# Sources that take different paths through ingest and engine; `make prove` tries them all.
_FEW = frozenset({"another size in mid-stream", "sound alone"})


def plays(sample: PlayerSample, entry: Input) -> bool:
    """Return whether the page plays the source's picture and sound, as far as it has them."""
    picture = sample.width > 0 or not entry.picture
    return sample.state == "playing" and picture and sample.audio_bytes > 0


def watch(viewer: Viewer, entry: Input) -> PlayerSample:
    """Wait until 3 s have been played."""
    first = viewer.wait(lambda sample: plays(sample, entry), 30, "playing")
    return viewer.wait(
        lambda sample: plays(sample, entry) and sample.position - first.position >= 3,
        30,
        "playing on",
    )


def listed_seconds(archive: PlaylistArchive) -> float:
    """Return how much of a stream has been listed: the longest of its renditions."""
    renditions = [rendition.segments.values() for rendition in archive.held.values()]
    return max(sum(segment.duration for segment in segments) for segments in renditions) / 90_000


def serve(
    headend: ServiceProcess, browser: Chromium, entry: Input, folder: Path, turn: threading.Lock
) -> str:
    """Send a source and check the output; return the faults, "" if there are none."""
    with turn:  # encoders take all cores
        file = entry.make(folder)
    record = headend.add_stream(entry.name)
    hash_, key = str(record["hash"]), str(record["stream"])
    url = f"{headend.http}/live/{hash_}/index.m3u8"
    viewer = browser.open(f"{headend.http}/watch/{hash_}")
    with archiving(url, patient=True) as archive:
        with entry.sending(file, f"{headend.server}/{key}"):
            poll(lambda: archive.held, within=20, what="a playlist")
            sample = watch(viewer, entry)
            poll(
                lambda: listed_seconds(archive) >= entry.odd_seconds, within=60, what="what is odd"
            )
        poll(lambda: has_ended(url), within=30, what="ENDLIST")
    archive.refresh()
    fatal = [fault for fault in sample.faults if fault.endswith("fatal")]
    viewer.close()
    wrong = [f"hls.js: {fatal}"] if fatal else []
    for name, rendition in archive.held.items():
        marks = sum(segment.discontinuity for segment in rendition.segments.values())
        if marks > entry.marks:
            wrong.append(f"{name}: {marks} discontinuities")
        longest = max(segment.duration for segment in rendition.segments.values())
        if longest > 4.5 * 90_000:
            wrong.append(f"{name}: a segment of {longest / 90_000:.1f} s")
        for path in rendition.stretches(folder / f"{name}.mp4"):
            if messages := decoder_errors(path):
                wrong.append(f"{name}: {messages}")
    return "; ".join(wrong)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium with autoplay, which it otherwise refuses to pages without user input."""
    with chromium("--autoplay-policy=no-user-gesture-required") as running:
        yield running


def try_all(headend: ServiceProcess, browser: Chromium, folder: Path, entries: list[Input]) -> None:
    """Serve a few sources at a time; fail with the faults of all."""
    without_slate(headend)
    turn = threading.Lock()
    wrong: dict[str, str] = {}

    def try_one(numbered: tuple[int, Input]) -> None:
        number, entry = numbered
        place = folder / str(number)
        place.mkdir()
        try:
            problem = serve(headend, browser, entry, place, turn)
        except (AssertionError, TimeoutError, OSError) as error:
            problem = str(error)
        if problem:
            wrong[entry.name] = problem

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(try_one, enumerate(entries)))
    assert wrong == {}, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


def test_some_odd_sources_play(headend: ServiceProcess, browser: Chromium, tmp_path: Path) -> None:
    entries = [entry for entry in INPUTS if entry.name in _FEW]
    assert len(entries) == len(_FEW)
    try_all(headend, browser, tmp_path, entries)


@pytest.mark.prove
def test_every_odd_source_plays(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path, proof: Proof
) -> None:
    try_all(headend, browser, tmp_path, list(INPUTS))
    assert fetch(f"{headend.http}/healthz").status == 200
    proof(
        "odd sources: play in Chromium, decode silently in ffmpeg, in every rendition",
        f"{len(INPUTS)} of {len(INPUTS)}",
        "all",
    )
