"""The room of a stream, open for hours: its memory in the browser does not grow.

The page's clocks run many times faster, so that it sends as many requests, and receives as many
events, as in those hours. All data comes from the service, with encoders on air. The page requests
reports more often than the service can measure (50 ms each): one report a second is fetched, the
others repeat it with its seconds advanced by the page's clock. The player in the page plays in real
time: its buffers are bounded by seconds of media, and full before the first measurement.

HEADEND_TEST_ROOM_HOURS sets another length.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.bare_chromium import BarePage, Footprint, bare_chromium
from tests.support.e2e.publishers import ffmpeg, make_source, publishing
from tests.support.e2e.repeating import repeating
from tests.support.e2e.service import ServiceProcess, fetch, service

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

HOURS: Final = float(os.environ.get("HEADEND_TEST_ROOM_HOURS", "8"))
SPEED: Final = 100  # more is too much for two cores: the page then sends fewer requests
# The charts are full after 5 min of the page's clock, the player's back buffer after 30 s of ours.
# In the remaining time the browser compiles the scripts.
WARM_SECONDS: Final = 60.0
LOOKS: Final = 8
REPORT_SECONDS: Final = 2  # of the page's clock, between two requests for a report
EVENT_SECONDS: Final = 60  # between two events of the stream
MOST_GROWTH: Final = 20_000_000  # bytes
LEAST_REPORTS: Final = 0.4  # the share of the reports that the page would request in these hours
# In the page itself, not in the player's frame.
_FAST: Final = """
if (window.top === window) {
  const speed = %d;
  const performed = performance.now.bind(performance);
  const RealDate = Date;
  const born = RealDate.now();
  const now = () => Math.round(born + (RealDate.now() - born) * speed);
  performance.now = () => performed() * speed;
  window.Date = class extends RealDate {
    constructor(...given) {
      if (given.length) super(...given);
      else super(now());
    }
    static now() {
      return now();
    }
  };
  for (const name of ["setTimeout", "setInterval"]) {
    const real = window[name].bind(window);
    window[name] = (act, wait = 0, ...rest) => real(act, wait / speed, ...rest);
  }
  const counts = (window.counts = { reports: 0, fetched: 0, fragments: 0 });
  document.addEventListener("htmx:afterSwap", () => (counts.fragments += 1));
  let kept = null;
  let since = -Infinity;
  const send = window.fetch.bind(window);
  const measure = async (request) => {
    since = performed();
    const answer = await send(...request);
    if (answer.status === 200) {
      kept = await answer.json();
      counts.fetched += 1;
    }
    return answer;
  };
  window.fetch = async (...request) => {
    if (!String(request[0]).endsWith("/ingest")) return send(...request);
    if (kept === null) {
      const answer = await measure(request);
      if (kept === null) return answer;
    } else if (performed() - since > 1000) void measure(request);
    counts.reports += 1;
    for (const { seconds } of kept.data.slots) {
      seconds.newest = Math.floor((now() - born) / 1000);
      for (const name of ["bit_rates", "frames", "keyframe_seconds"])
        if (seconds[name].length) seconds[name].push(seconds[name].shift());
    }
    return new Response(JSON.stringify(kept));
  };
}
"""
_SIGN_IN: Final = """(() => {
  const field = document.querySelector("#token");
  if (!field) return false;
  field.value = %r;
  field.form.requestSubmit();
  return true;
})()"""
_PLAYS: Final = (
    "document.querySelector('iframe.preview')?.contentWindow.headend?.state() === 'playing'"
)
_SHOWN: Final = """({
  hours: (Date.now() - performance.timeOrigin) / 3.6e6,
  charts: document.querySelectorAll("#health canvas").length,
  listed: document.querySelectorAll("#events li").length,
  rate: document.querySelector('#slot-primary [data-figure="rate"]')?.textContent ?? "",
  state: document.querySelector("iframe.preview").contentWindow.headend.state(),
  frames: document.querySelector("iframe.preview").contentWindow.headend.video
    .getVideoPlaybackQuality().totalVideoFrames,
  ...window.counts,
})"""


class PageState(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows, and the counts of its requests; `hours` are those of its clock."""

    hours: float
    charts: int
    listed: int
    rate: str
    state: str
    frames: int
    reports: int
    fetched: int
    fragments: int


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_API__REQUESTS_PER_MINUTE": "0",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path_factory.mktemp("hours") / "data", environment=environment) as running:
        yield running


def read_page(page: BarePage) -> tuple[PageState, Footprint]:
    state = msgspec.convert(page.evaluate(_SHOWN), PageState)
    return state, page.footprint()


def wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def test_a_room_that_is_open_for_hours_does_not_grow(
    headend: ServiceProcess, tmp_path: Path, proof: Proof
) -> None:
    address = f"{headend.http}/api/streams/{headend.number}/backups"
    added: list[str] = []
    events = 0

    def cause_event() -> None:
        """Add or remove an ingest address, which is announced to all pages with the stream."""
        nonlocal events
        if added:
            answer = fetch(f"{address}/{added.pop()}", method="DELETE", token=headend.token)
            assert answer.status == 204, answer.text
        else:
            answer = fetch(address, method="POST", token=headend.token)
            assert answer.status == 201, answer.text
            added.append(str(cast("dict[str, object]", answer.json["backup"])["id"]))
        events += 1

    source = make_source(tmp_path / "tiny.flv", seconds=8, size="320x180", fps=15)
    primary = ffmpeg(source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
    backup = ffmpeg(source, f"{headend.server}-backup-1/{headend.key}", "-stream_loop", "-1")
    room = f"{headend.http}/console/1/streams/{headend.number}"
    looks: list[tuple[PageState, Footprint]] = []
    with (
        publishing(primary),
        publishing(backup) as spare,
        bare_chromium(tmp_path, room, _FAST % SPEED) as page,
    ):
        page.wait_for(_SIGN_IN % headend.token, 10, "a page to sign in")
        page.wait_for("document.querySelectorAll('#health canvas').length === 3", 40, "charts")
        page.wait_for(_PLAYS, 40, "a player that plays")
        with repeating(cause_event, EVENT_SECONDS / SPEED):
            wait_until(time.monotonic() + WARM_SECONDS)
            began = time.monotonic()
            for number in range(LOOKS + 1):
                wait_until(began + HOURS * 3600 / SPEED * number / LOOKS)
                looks.append(read_page(page))
                print(f"{time.monotonic() - began:.0f} s: {looks[-1]}", flush=True)  # noqa: T201
                if number == 2:
                    spare.send_signal(signal.SIGSTOP)
                if number == 3:
                    spare.send_signal(signal.SIGCONT)
    (before, first), (after, last) = looks[0], looks[-1]
    reports, due = after.reports - before.reports, HOURS * 3600 / REPORT_SECONDS
    what = f"a stream's room open for {HOURS:g} h, at {SPEED} times the speed"
    for name, at_start, at_end in (
        ("what its scripts keep", first.heap, last.heap),
        ("its process", first.renderer, last.renderer),
        ("the whole browser", first.browser, last.browser),
    ):
        proof(
            f"{what}: memory of {name}, before and after",
            f"{at_start / 1e6:.1f} MB, {at_end / 1e6:.1f} MB",
            f"{MOST_GROWTH / 1e6:.0f} MB more",
        )
    proof(
        f"{what}: reports shown, parts of the page fetched anew, events",
        f"{reports} (of {due:.0f}), {after.fragments - before.fragments}, {events}",
        f"{LEAST_REPORTS * due:.0f} reports",
    )
    proof(
        f"{what}: nodes and listeners, before and after",
        f"{first.nodes} and {first.listeners}, {last.nodes} and {last.listeners}",
        "",
    )
    assert after.hours - before.hours >= 0.99 * HOURS
    assert reports >= LEAST_REPORTS * due
    assert after.charts == 3
    assert after.listed == 10
    assert "Mbit/s" in after.rate
    assert after.state == "playing"
    assert after.frames > before.frames
    assert last.heap - first.heap <= MOST_GROWTH, looks
    assert last.renderer - first.renderer <= MOST_GROWTH, looks
    assert last.browser - first.browser <= MOST_GROWTH, looks


def test_a_leak_of_a_page_is_measured(tmp_path: Path) -> None:
    """Otherwise the test above would pass whatever the page does."""
    with bare_chromium(tmp_path, "about:blank") as page:
        empty = page.footprint()
        page.evaluate("void (window.kept = Array.from({ length: 4e6 }, (_, at) => at + 0.5))")
        numbers = page.footprint()
        page.evaluate("void (window.buffer = new Uint8Array(32e6).fill(1))")
        buffers = page.footprint()
        page.evaluate(
            "void (window.gone = Array.from({ length: 1e4 }, () => document.createElement('p')))"
        )
        nodes = page.footprint()
        page.evaluate("void (window.kept = window.buffer = window.gone = null)")
        freed = page.footprint()
    assert numbers.script - empty.script >= 30e6
    assert numbers.renderer - empty.renderer >= 25e6
    assert buffers.buffers - numbers.buffers >= 30e6
    assert buffers.browser - empty.browser >= 50e6
    assert nodes.nodes - buffers.nodes >= 1e4
    assert nodes.dom > buffers.dom
    assert freed.heap - empty.heap <= MOST_GROWTH / 20
    assert freed.nodes - empty.nodes <= 100
