"""Subtitles embedded in a file, shown in Chromium and read by ffmpeg."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin

import pytest

from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from tests.e2e.test_videos import completed, upload
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import SCALE, ServiceProcess, fetch
from tests.support.engine.subtitled_files import ENGLISH, GERMAN, subtitled

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

# The subtitles that are shown now, and the options of the menu.
READ = """() => {
  const { video } = window.headend;
  const shown = [...video.textTracks].filter((track) => track.mode === "showing");
  return shown.flatMap((track) => [...(track.activeCues ?? [])].map((cue) => cue.text));
}"""
MENU = """() => [...document.querySelector('[data-part="subtitles"]').options]
  .map((one) => one.text)"""
CHOOSE = """(text) => {
  const menu = document.querySelector('[data-part="subtitles"]');
  menu.value = [...menu.options].find((one) => one.text === text).value;
  menu.dispatchEvent(new Event("change", { bubbles: true }));
}"""
GO = "(moment) => { window.headend.video.currentTime = moment; }"


@pytest.mark.parametrize("name", ["film.mp4", "film.mkv"])
def test_subtitles_of_a_file_are_shown_in_chromium(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path, name: str
) -> None:
    # Its pictures begin late, but its subtitles must not be shifted.
    path = subtitled(tmp_path / name, (GERMAN, ENGLISH), seconds=24, shift=3)
    _, answer = upload(headend, path)
    video = answer["video"]
    completed(headend, video["id"], within=180)
    playlist = multivariant(video["video"])
    assert isinstance(playlist, MultivariantPlaylist)
    assert [(each.name, each.language) for each in playlist.subtitles] == [
        ("Deutsch", "de"),
        ("English", "en"),
    ]
    assert {each.subtitles for each in playlist.variants} == {"subtitles"}
    read_by_ffmpeg(urljoin(video["video"], playlist.subtitles[0].uri), tmp_path)
    sought_by_gstreamer(video["video"])
    viewer = browser.open(f"{headend.http}/watch/{video['hash']}")
    try:
        reads(viewer)
    finally:
        viewer.close()


def read_by_ffmpeg(address: str, folder: Path) -> None:
    playlist = fetch(address)
    parsed = parse(playlist.text)
    assert isinstance(parsed, MediaPlaylist)
    assert parsed.whole
    assert [round(segment.duration / 90_000) for segment in parsed.segments[:2]] == [10, 10]
    words, *others = (fetch(urljoin(address, segment.uri)) for segment in parsed.segments)
    for each in (words, *others):
        assert each.headers["content-type"].startswith("text/vtt")
    assert [b"Ende" in each.body for each in (words, *others)] == [False, False, True]
    (folder / "words.vtt").write_bytes(words.body)
    done = subprocess.run(
        [*(tool("ffmpeg"), "-v", "warning", "-i", folder / "words.vtt"), "-f", "srt", "-"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60 * SCALE,
    )
    assert done.stderr == ""
    assert "00:00:02,000 --> 00:00:04,000\nGuten Morgen" in done.stdout


def sought_by_gstreamer(address: str) -> None:
    """Check that a seek leads there; with one segment of subtitles it led to the beginning."""
    command = (sys.executable, "-m", "tests.support.e2e.gstreamer_seek", address, "14")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60 * SCALE)
    assert 12 <= float(done.stdout) <= 18


def reads(viewer: Viewer) -> None:
    viewer.wait_for("playing", 30)
    viewer.wait(lambda _: viewer.evaluate(MENU) == ["Off", "Deutsch", "English"], 15, "a menu")
    # Seek to each moment: the shown subtitle must be that of the media time.
    for language, moment, text in (
        ("Deutsch", 3.0, "Guten Morgen"),
        ("Deutsch", 1.0, None),
        ("English", 3.0, "Good <i>morning</i>"),
        ("English", 21.0, "The end"),
    ):
        viewer.evaluate(CHOOSE, language)
        viewer.evaluate(GO, moment)
        wanted = [] if text is None else [text]
        viewer.wait(
            lambda _, wanted=wanted: viewer.evaluate(READ) == wanted, 20, f"{language} {moment}"
        )
    viewer.evaluate(CHOOSE, "Off")
    viewer.wait(lambda _: viewer.evaluate(READ) == [], 10, "nothing to be read")
    sample = viewer.sample()
    assert sample is not None
    assert not [fault for fault in sample.faults if "fatal" in fault]
    assert viewer.breaches() == []
