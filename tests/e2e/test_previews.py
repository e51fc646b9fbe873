"""Preview pictures of an uploaded film: in its JSON document, as files, and over the time line."""

import re
from pathlib import Path
from urllib.parse import urljoin

import msgspec
import pytest

from tests.e2e.test_videos import completed, get_json, upload
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.service import ServiceProcess, fetch
from tests.support.engine.sources import ffmpeg
from tests.support.engine.upload_files import picture_size
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "25")
COLORS = ("red", "lime", "blue", "white")  # a second each, in turn
SLIDER = '[data-part="slider"]'
# The sheet of the picture over the time line, and the offset of the shown picture in it.
SHOWN = """() => {
  const preview = document.querySelector('[data-part="preview"]');
  const { style } = preview.querySelector('[data-part="picture"]');
  const { backgroundImage, backgroundPosition } = style;
  return preview.hidden ? null
    : [backgroundImage, backgroundPosition, preview.innerText.trim()];
}"""
POINT = """([share]) => {
  const slider = document.querySelector('[data-part="slider"]');
  const { left, width, top, height } = slider.getBoundingClientRect();
  slider.dispatchEvent(new PointerEvent("pointermove", {
    bubbles: true, clientX: left + width * share, clientY: top + height / 2,
  }));
}"""


def colors(path: Path) -> Path:
    """Make a film of 8 s with another colour each second."""
    each = [f"color={COLORS[second % 4]}:s=320x180:r=25:d=1[c{second}]" for second in range(8)]
    joined = "".join(f"[c{second}]" for second in range(8))
    graph = ";".join([*each, f"{joined}concat=n=8"])
    ffmpeg("-filter_complex", graph, *X264, "-y", path)
    return path


def test_the_picture_of_a_moment_shows_over_the_time_line(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path
) -> None:
    _, answer = upload(headend, colors(tmp_path / "colors.mp4"))
    hash_ = answer["video"]["hash"]
    completed(headend, answer["video"]["id"], within=120)
    document = fetch(f"{headend.http}/json/videos/{hash_}.json").json
    address = document["previews"]
    assert isinstance(address, str)
    assert re.search(rf"/videos/{hash_}/previews-1-1/previews\.vtt$", address)
    cue_list = fetch(address)
    assert cue_list.headers["content-type"].startswith("text/vtt")
    assert "immutable" in cue_list.headers["cache-control"]
    cues = cue_list.text.split("\n\n")
    assert (cues[0], len(cues)) == ("WEBVTT", 9)
    assert cues[1] == "00:00:00.000 --> 00:00:01.000\nsheet-0.jpg#xywh=0,0,160,90"
    sheet = fetch(urljoin(address, "sheet-0.jpg"))
    assert (sheet.status, sheet.headers["content-type"]) == (200, "image/jpeg")
    assert picture_size(sheet.body) == (1280, 90)
    viewer = browser.open(f"{headend.http}/watch/{hash_}")
    try:
        shows(viewer)
    finally:
        viewer.close()
    assert fetch(f"{headend.http}/api/videos/{answer['video']['id']}/unpublish", method="POST",
                 token=headend.token).status == 200  # fmt: skip
    # Within a second, for which the visibility is cached.
    poll(lambda: fetch(address).status == 404, within=10, what="the end of its previews")
    assert get_json(headend, f"/api/videos/{answer['video']['id']}")["published"] is False


def shows(viewer: Viewer) -> None:
    viewer.wait_for("playing", 30)
    has_slider = f"() => !document.querySelector('{SLIDER}').hidden"
    viewer.wait(lambda _: viewer.evaluate(has_slider) is True, 10, "a time line")
    assert viewer.evaluate(SHOWN) is None
    viewer.evaluate(POINT, [0.45])
    shown = msgspec.convert(viewer.evaluate(SHOWN), tuple[str, str, str])
    assert shown[0].endswith('/previews-1-1/sheet-0.jpg")')
    assert shown[1:] == ("-480px 0px", "0:03")
    viewer.evaluate(f"() => document.querySelector('{SLIDER}').focus()")
    viewer.press("ArrowRight")
    viewer.wait(lambda sample: sample.position >= 4.9, 10, "five seconds on")
    shown = msgspec.convert(viewer.evaluate(SHOWN), tuple[str, str, str])
    assert shown[1:] == ("-800px 0px", "0:05")
    value_text = viewer.evaluate(f"() => document.querySelector('{SLIDER}').ariaValueText")
    assert value_text == "0:05 of 0:08"
    viewer.evaluate(f"() => document.querySelector('{SLIDER}').blur()")
    assert viewer.evaluate(SHOWN) is None
    assert viewer.breaches() == []
