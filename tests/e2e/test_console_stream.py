"""A broadcaster at the console, with real encoders: a stream is added, watched, switched, ended."""

import re
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.support.browser import Chromium, Viewer
from tests.support.e2e.console_pages import shows, sign_in, value
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, settle
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

HOSTILE: Final = "\"'><img src=x onerror=alert(1)><script>window.pwned = true</script>"
# The answers to requests for the whole list come when that of a search has been shown.
_HOLD_LISTS: Final = """() => {
  window.shown = [];
  const send = XMLHttpRequest.prototype.send, open = XMLHttpRequest.prototype.open;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.ofList = !String(url).includes("search=");
    return open.call(this, method, url, ...rest);
  };
  XMLHttpRequest.prototype.send = function (body) {
    const { onload } = this;
    if (this.ofList) this.onload = function (...all) {
      const late = setInterval(() => {
        if (!location.search.includes("search=sought")) return;
        clearInterval(late);
        setTimeout(() => {
          onload?.apply(this, all);
          window.shown.push(document.querySelector("#streams").innerText);
        }, 300);
      }, 50);
    };
    return send.call(this, body);
  };
}"""
_CHARTS: Final = "() => document.querySelectorAll('#health canvas').length"

_HOLD: Final = "['#state-words', '#act-allow'].map(each => document.querySelector(each))"
_MARK: Final = f"() => {_HOLD}.forEach(each => each.append('~'))"
_UNMARKED: Final = f"() => {_HOLD}.every(each => !each.innerText.includes('~'))"


def agree(viewer: Viewer, selector: str) -> None:
    """Press a button that opens a dialog, and confirm the dialog."""
    viewer.click(selector)
    viewer.click('#confirm button[value="yes"]')


def add_stream(viewer: Viewer, headend: ServiceProcess, title: str) -> None:
    """Add a stream with the form, which opens its room."""
    viewer.visit(f"{headend.http}/console/1/streams")
    viewer.click('a[href$="/streams/new"]')
    shows(viewer, "h1", "New stream")
    viewer.fill("#title", title)
    viewer.press("Enter")
    shows(viewer, "#state", "It goes live by itself when an encoder sends.")


def test_a_broadcast_from_the_first_click_to_the_end(
    shared_service: ServiceProcess, browser: Chromium, small_source: Path
) -> None:
    settle(shared_service, return_seconds=2)
    viewer = sign_in(browser, shared_service)
    add_stream(viewer, shared_service, HOSTILE)
    server, key = value(viewer, "#server"), value(viewer, "#stream-key")
    primary = ffmpeg(small_source, f"{server}/{key}", "-stream_loop", "-1")
    backup = ffmpeg(small_source, f"{server}-backup-1/{key}", "-stream_loop", "-1")
    with publishing(primary) as encoder:
        shows(viewer, "#state", "Primary is on air", 40)
        shows(viewer, '#slot-primary [data-figure="picture"]', "H.264", 30)
        shows(viewer, '#slot-primary [data-figure="rate"]', "Mbit/s", 30)
        assert viewer.evaluate(_CHARTS) == 3
        with publishing(backup) as second:
            shows(viewer, "#slot-backup-1", "Standing by", 30)
            shows(viewer, '#slot-backup-1 [data-figure="frames"]', "a second", 30)
            agree(viewer, "#act-drill")
            shows(viewer, "#drill-result", "Backup 1 took over after", 40)
            shows(viewer, "#events", "Failover drill: backup 1 took over")
            shows(viewer, "#state", "Primary is on air", 60)
            encoder.send_signal(signal.SIGKILL)
            shows(viewer, "#state", "Backup 1 is on air", 30)
            shows(viewer, "#events", "the connection of primary was lost")
            shows(viewer, "#slot-primary", "Not connected")
            second.send_signal(signal.SIGSTOP)
            shows(viewer, "#slot-backup-1", "Connected, but sends nothing")
            second.send_signal(signal.SIGCONT)
            shows(viewer, "#state", "Backup 1 is on air", 30)
            agree(viewer, "#act-pause")
            shows(viewer, "#state", "Viewers see the slate until you resume.")
            # The button has the focus; its fragment may arrive later than the state.
            shows(viewer, "#act-pause", "Resume")
            viewer.click("#act-pause")
            shows(viewer, "#state", "Backup 1 is on air", 30)
            agree(viewer, "#act-end")
            shows(viewer, "#state", "It was ended: an encoder that reconnects by itself", 30)
    with publishing(primary) as refused:
        refused.wait(30 * SCALE)
        shows(viewer, "#state", "an encoder that tries to go live is refused")
        shows(viewer, "#events", "Primary tried to go live and was refused: the stream was ended.")
    # No event says that encoders are let in after a while: the page asks.
    viewer.evaluate(_MARK)
    viewer.wait_for_page(_UNMARKED, 10, "asked again")
    viewer.click("#act-allow")
    shows(viewer, "#state", "It goes live by itself when an encoder sends.")
    viewer.wait_for_page("() => !document.querySelector('#act-allow')", 10, "no such button")
    agree(viewer, "#rotate")
    shows(viewer, "#events", "The stream key was changed")
    poll(lambda: value(viewer, "#stream-key") != key, within=10, what="the new key")
    assert viewer.evaluate("() => window.pwned") is None
    assert viewer.breaches() == []


def test_several_streams_are_acted_on_at_once(
    shared_service: ServiceProcess, browser: Chromium
) -> None:
    for number in range(3):
        shared_service.add_stream(f"Bulk {number}")
    shared_service.add_stream("Another")
    viewer = sign_in(browser, shared_service)
    viewer.visit(f"{shared_service.http}/console/1/streams")
    viewer.fill('input[name="search"]', "bulk")
    shows(viewer, "#streams", "Bulk 2")
    viewer.wait_for_page(
        "() => !document.querySelector('#streams').innerText.includes('Another')", 10, "searched"
    )
    assert viewer.evaluate("() => location.search.includes('search=bulk')") is True
    viewer.click("#select-all")
    shows(viewer, "#bulk-count", "3 streams selected")
    agree(viewer, '[data-bulk$="/unpublish"]')
    shows(viewer, "#streams .chips", "Unpublished")
    # The first chip may change before the last stream has been changed.
    viewer.wait_for_page("() => document.querySelector('#bulk').hidden", 10, "changed all")
    viewer.click("#select-all")
    agree(viewer, '[data-bulk^="DELETE"]')
    shows(viewer, "#toasts", "3 streams deleted.")
    shows(viewer, "#streams", "No stream is like that.")
    viewer.visit(f"{shared_service.http}/console/1/streams")
    shows(viewer, "#streams", "Another")
    assert viewer.breaches() == []


def test_a_search_is_not_undone_by_an_answer_that_was_asked_for_before_it(
    shared_service: ServiceProcess, browser: Chromium
) -> None:
    for title in ("Sought", "Passed over"):
        shared_service.add_stream(title)
    viewer = sign_in(browser, shared_service)
    viewer.visit(f"{shared_service.http}/console/1/streams")
    viewer.evaluate(_HOLD_LISTS)
    viewer.evaluate("() => document.dispatchEvent(new CustomEvent('headend:refresh'))")
    viewer.fill('input[name="search"]', "sought")
    viewer.wait_for_page("() => window.shown.length > 0", 10, "answered late")
    wrong = "each => !each.includes('Sought') || each.includes('Passed over')"
    assert viewer.evaluate(f"() => window.shown.filter({wrong})") == []


def test_an_edit_is_saved_and_the_later_of_two_conflicting_ones_is_refused(
    shared_service: ServiceProcess, browser: Chromium
) -> None:
    first = sign_in(browser, shared_service)
    add_stream(first, shared_service, "Edited by two")
    second = sign_in(browser, shared_service)
    second.visit(str(first.evaluate("() => location.href")))
    for viewer in (first, second):
        viewer.click("details.fold summary")
    first.fill("#edit-title", "By the first")
    first.press("Enter")
    shows(first, "h1", "By the first")
    second.fill("#edit-title", "By the second")
    second.fill("#edit-tags", "news, late")
    second.press("Enter")
    shows(second, "#details .form-error", "Somebody else changed this meanwhile")
    assert value(second, "#edit-title") == "By the second"
    second.click("#details .form-error button:last-of-type")
    shows(second, "h1", "By the second")
    second.click("details.fold summary")
    tags = "() => [...document.querySelectorAll('[name=tags]:checked')].map((tag) => tag.value)"
    assert second.evaluate(tags) == ["late", "news"] or second.evaluate(tags) == ["news", "late"]
    title = second.evaluate("() => document.title")
    assert re.match("By the second", str(title))
