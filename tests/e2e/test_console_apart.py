"""What a stream's room says of encoders that are compared, in a real Chromium.

The page gets reports that are made here, since encoders take minutes to drift: every half second
one of 3.5 s later.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest

from api.streams.schemas import EncoderBody, IngestData, IngestReport
from media.encoder_report import (
    AlignmentReport,
    ClockReport,
    KeyframeReport,
    NetworkReport,
    PictureReport,
    SecondsReport,
    SoundReport,
)
from media.source_fault import SourceFault
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.console_pages import must_be_for_everybody, shows, sign_in
from tests.support.e2e.service import ServiceProcess
from tests.support.sql import run_sql

pytestmark = pytest.mark.e2e

# From the page's reports on, its clocks run ahead, and the last encoder falls behind.
_FEED: Final = """(report) => {
  window.report = report;
  if (window.reports) return;
  window.reports = 0;
  const [ask, clock, since] = [window.fetch, Date.now, performance.now.bind(performance)];
  const drift = () => 3 * window.reports;
  Date.now = () => clock() + 3500 * window.reports;
  performance.now = () => 4 * since();
  window.fetch = (path, ...rest) => {
    const answers = (data) => Promise.resolve(new Response(JSON.stringify(data)));
    if (String(path).endsWith("/failover-drill"))
      return answers({ drill: { to: "backup-1", gap_ms: -40, switched_after_ms: 810 } });
    if (!String(path).endsWith("/ingest")) return ask(path, ...rest);
    window.reports += 1;
    const fed = structuredClone(window.report);
    for (const { seconds } of fed.data.slots) seconds.newest = Math.floor(Date.now() / 1000);
    const { alignment } = fed.data.slots.at(-1);
    if (alignment?.behind_ms) alignment.behind_ms += Math.round(drift());
    return answers(fed);
  };
}"""
_CHARTS: Final = """() => [...document.querySelectorAll("#health canvas")]
  .filter((each) => each.checkVisibility()).length"""


def encoder(
    slot: str,
    behind_ms: int | None = None,
    *,
    faults: Sequence[SourceFault] = (),
    confidence: float = 0.94,
    reason: str | None = None,
) -> EncoderBody:
    """Return the report of an encoder; a backup is compared with the primary."""
    keyframes = KeyframeReport(
        intervals=29, min_seconds=2.0, median_seconds=2.0, max_seconds=2.0, since_seconds=0.4,
        fixed=True,
    )  # fmt: skip
    video = PictureReport(
        codec="H.264", profile="High", level="4.0", width=1920, height=1080,
        configuration="5c6f1e0b", plays_everywhere=True, announced_frame_rate=30.0,
        frame_rate=30.0, frame_rate_varies=False, frames=1800, frames_missing=0,
        bit_rate=6_000_000, peak_bit_rate=6_400_000, keyframes=keyframes, b_frames=2,
        open_gop=False,
    )  # fmt: skip
    audio = SoundReport(
        codec="AAC", rate=48_000, channels=2, configuration="a1f0c2d4", bit_rate=160_000,
        peak_bit_rate=163_000,
    )  # fmt: skip
    return EncoderBody(
        slot=slot,
        backup_id=None,
        peer="192.0.2.7:51514",
        connected_seconds=88.4,
        video=video,
        audio=audio,
        network=NetworkReport(
            measured_seconds=60.0, jitter_ms=24, silent_seconds=0.02, longest_silence_seconds=0.11
        ),
        clock=ClockReport(drift_ppm=12, drift_seconds=87.0, jumps=0, steps_back=0, interleave_ms=4),
        seconds=SecondsReport(
            newest=0, bit_rates=[6_160_000] * 60, frames=[30] * 60, keyframe_seconds=[2.0] * 60
        ),
        advice=[],
        alignment=None
        if slot == "primary"
        else AlignmentReport(
            reference="primary", behind_ms=behind_ms, confidence=confidence, method="sound",
            reason=reason,
        ),
        faults=list(faults),
    )  # fmt: skip


def feed(viewer: Viewer, *slots: EncoderBody) -> None:
    """Let the page get this report from now on, the primary being on air."""
    report = IngestReport(live=True, on_air="primary", slots=list(slots), advice=[])
    viewer.evaluate(_FEED, msgspec.to_builtins(IngestData(data=report)))


def on_air(headend: ServiceProcess) -> str:
    """Add a stream that two encoders send to, for the database; return the path of its room."""
    stream = headend.add_stream("Compared")
    run_sql(
        headend.data / "catalog.sqlite",
        "UPDATE streams SET live = true, processing = true, on_air = 0, receiving_count = 2"
        f" WHERE id = {stream['id']}",
        f"UPDATE stream_backups SET live = true WHERE stream_id = {stream['id']}",
    )
    return f"/console/1/streams/{stream['id']}"


def asks(viewer: Viewer, words: str) -> None:
    """Fail unless the question before a drill comes to contain these words."""
    question = "document.querySelector('#act-drill').dataset.confirm"
    viewer.wait_for_page(f"() => {question}.includes({words!r})", 10, f"{words!r} in the question")


def test_encoders_that_are_compared(
    shared_service: ServiceProcess, browser: Chromium, axe: str
) -> None:
    viewer = sign_in(browser, shared_service)
    viewer.visit(shared_service.http + on_air(shared_service))
    feed(viewer, encoder("primary"), encoder("backup-1", 640))
    primary, backup = "#slot-primary", "#slot-backup-1"
    shows(viewer, f"{primary} .figures", "Programme The others are compared with it")
    shows(viewer, f"{backup} .figures", "s behind primary Certain, by the sound")
    shows(viewer, "#apart-words", "s later than ", 40)
    assert viewer.evaluate(_CHARTS) == 4
    asks(viewer, "s behind: viewers get nothing new for up to about 0.")
    must_be_for_everybody(viewer, axe)
    black = SourceFault(kind="black", verdict="fault", seconds=4.2, confidence=0.9)
    feed(viewer, encoder("primary", faults=[black]), encoder("backup-1", -900))
    shows(viewer, f"{primary} .verdict", "Shows black, unlike the others")
    asks(viewer, "Backup 1 takes over where it is; viewers notice nothing.")
    both = SourceFault(kind="frozen", verdict="both", seconds=4.2)
    unknown = SourceFault(kind="silent", verdict="unknown", seconds=4.2)
    unsure = encoder("backup-1", faults=[both, unknown], confidence=0.0, reason="silent")
    feed(viewer, encoder("primary", faults=[both]), unsure)
    shows(viewer, f"{primary} .shows", "Shows a frozen picture, like the others.")
    shows(viewer, f"{backup} .shows", "Is silent, which may be meant.")
    shows(viewer, f"{backup} .verdict", "Well")
    shows(viewer, f"{backup} .figures", "Not known: silence")
    asks(viewer, "for viewers the programme may jump, and up to 1 s")
    viewer.click("#act-drill")
    shows(viewer, "#confirm-text", "The encoder on air counts as lost")
    viewer.click('#confirm button[value="yes"]')
    shows(viewer, "#drill-result", "Backup 1 took over after 0.81 s. Viewers saw 40 ms twice.")
    assert viewer.breaches() == []
