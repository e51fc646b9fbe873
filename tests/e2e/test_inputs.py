"""Every odd source of the table plays in Chromium and decodes in ffmpeg without a word."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium, PlayerSample, Viewer, chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    media,
    multivariant,
)
from tests.support.e2e.odd_sources import INPUTS, Input
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, without_slate
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_AT_ONCE = 3
# Those that take different ways through ingest and engine; `make prove` tries them all.
_FEW = frozenset(
    {
        "another size in mid-stream", "HEVC", "sound alone",
    }
)  # fmt: skip


def plays(sample: PlayerSample, entry: Input) -> bool:
    """Say whether the page shows and sounds what the source has."""
    picture = sample.width > 0 or not entry.picture
    return sample.state == "playing" and picture and sample.audio_bytes > 0


def watch(viewer: Viewer, entry: Input) -> PlayerSample:
    """See 3 s go by."""
    first = viewer.wait(lambda sample: plays(sample, entry), 30, "playing")
    return viewer.wait(
        lambda sample: plays(sample, entry) and sample.position - first.position >= 3,
        30,
        "playing on",
    )


def follow(url: str, collected: dict[str, CollectedRendition]) -> None:
    """Fetch all there is, to the ENDLIST."""
    deadline = time.monotonic() + 90 * SCALE
    while time.monotonic() < deadline:
        if multivariant(url) is not None:
            collect(url, collected)
            if all(media(address).ended for address in addresses(url).values()):
                return
        time.sleep(0.5)
    raise AssertionError("no ENDLIST")


def serve(
    headend: ServiceProcess, browser: Chromium, entry: Input, folder: Path, turn: threading.Lock
) -> str:
    """Send a source and look at what comes out; return what was wrong, "" if nothing was."""
    with turn:  # encoders take all cores
        file = entry.make(folder)
    record = headend.add_stream(entry.name)
    hash_, key = str(record["hash"]), str(record["stream"])
    url = f"{headend.http}/live/{hash_}/index.m3u8"
    collected: dict[str, CollectedRendition] = {}
    # Before the source, which lasts for some seconds: a busy machine may take as long for a page.
    viewer = browser.open(f"{headend.http}/watch/{hash_}")
    with entry.sending(file, f"{headend.server}/{key}"):
        poll(lambda: multivariant(url), within=20, what="a playlist")
        seen = watch(viewer, entry)
        follow(url, collected)
    fatal = [fault for fault in seen.faults if fault.endswith("fatal")]
    viewer.close()
    wrong = [f"hls.js: {fatal}"] if fatal else []
    for name, what in collected.items():
        marks = sum(held.discontinuity for held in what.segments.values())
        if marks > entry.marks:
            wrong.append(f"{name}: {marks} discontinuities")
        longest = max(held.duration for held in what.segments.values())
        if longest > 4.5 * 90_000:
            wrong.append(f"{name}: a segment of {longest / 90_000:.1f} s")
        for stretch in what.stretches(folder / f"{name}.mp4"):
            if said := decoder_errors(stretch):
                wrong.append(f"{name}: {said}")
    return "; ".join(wrong)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium, which would else not play a page that nobody touched."""
    with chromium("--autoplay-policy=no-user-gesture-required") as running:
        yield running


def try_all(headend: ServiceProcess, browser: Chromium, folder: Path, entries: list[Input]) -> None:
    """Serve some sources at a time, and say of all what was wrong."""
    without_slate(headend)
    turn = threading.Lock()
    wrong: dict[str, str] = {}

    def one(numbered: tuple[int, Input]) -> None:
        number, entry = numbered
        place = folder / str(number)
        place.mkdir()
        try:
            said = serve(headend, browser, entry, place, turn)
        except (AssertionError, TimeoutError, OSError) as error:
            said = str(error)
        if said:
            wrong[entry.name] = said

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(one, enumerate(entries)))
    assert wrong == {}, "\n".join(f"{name}: {said}" for name, said in wrong.items())


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
