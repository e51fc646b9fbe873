"""A file uploaded with curl plays in a browser, in all its resolutions, with posters."""

from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from media.hls.playlist import MultivariantPlaylist
from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    collect,
    decoder_errors,
    has_ended,
    multivariant,
)
from tests.support.e2e.service import ServiceProcess, fetch
from tests.support.e2e.uploaded_videos import completed, get_json, upload
from tests.support.engine.upload_files import film, picture_size

pytestmark = pytest.mark.e2e

Json = dict[str, Any]  # Any: what the tests are about to find out
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "250", "-sc_threshold", "0", "-c:a", "aac")
RUNGS = {"720p": (1280, 720), "480p": (854, 480), "360p": (640, 360)}
# The same ladder with a quarter of the pixels: too wide for 480p.
SMALL = {"720p": (864, 240), "480p": (854, 238), "360p": (640, 178)}


@pytest.fixture
def headend(shared_service: ServiceProcess) -> ServiceProcess:
    return shared_service


def test_an_uploaded_file_plays_in_chromium_in_all_its_resolutions(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path
) -> None:
    path = film(tmp_path / "Holiday film.mp4", *X264, seconds=20, size=SMALL["720p"], rate=30)
    plays(headend, browser, path, tmp_path, SMALL)


@pytest.mark.prove
def test_a_minute_plays_in_chromium_in_all_its_resolutions(
    headend: ServiceProcess, browser: Chromium, tmp_path: Path, proof: Proof
) -> None:
    path = film(tmp_path / "minute.mp4", *X264, seconds=60, size=(1280, 720), rate=30)
    plays(headend, browser, path, tmp_path, RUNGS)
    proof("60 s file, uploaded with curl, played in Chromium", "720p, 480p, 360p", "all")


def plays(
    headend: ServiceProcess,
    browser: Chromium,
    path: Path,
    folder: Path,
    rungs: dict[str, tuple[int, int]],
) -> None:
    status, answer = upload(headend, path, title="Holiday")
    assert status == 201, answer
    video = answer["video"]
    assert (video["completed"], video["transcoding_progress"]) == (False, 0)
    statuses = completed(headend, video["id"], within=180)
    progress = [status_record["progress"] for status_record in statuses]
    assert progress == sorted(progress)
    assert progress[-1] == 100
    assert any(0 < percent < 100 for percent in progress)
    record = get_json(headend, f"/api/videos/{video['id']}")
    assert (record["completed"], record["published"]) == (True, True)
    assert {
        each["resolution"]: each["transcoded"] for each in record["resolutions"]
    } == dict.fromkeys(rungs, 1)
    playlist = multivariant(record["video"])
    assert isinstance(playlist, MultivariantPlaylist)
    assert {(each.width, each.height) for each in playlist.variants} == set(rungs.values())
    collected_renditions: dict[str, CollectedRendition] = {}
    collect(record["video"], collected_renditions)
    for name, collected in collected_renditions.items():
        assert decoder_errors(collected.file(folder / f"{name}.mp4")) == "", name
    assert has_ended(record["video"])
    for label, size in rungs.items():
        poster = fetch(urljoin(headend.http, record["image_urls"][label]))
        assert (poster.status, poster.headers["content-type"]) == (200, "image/jpeg")
        assert picture_size(poster.body) == size
    viewer = browser.open(f"{headend.http}/watch/{video['hash']}")
    try:
        viewer.wait_for("playing", 20)  # ready, but paused until the viewer starts it
        viewer.press("k")
        viewer.wait_until_playing(20)
        for _, height in rungs.values():
            viewer.evaluate("() => { window.headend.video.currentTime = 0; }")
            viewer.force(height)
        sample = viewer.sample()
        assert sample is not None
        assert sample.audio_bytes > 0
        assert not [fault for fault in sample.faults if "fatal" in fault]
        assert viewer.breaches() == []
    finally:
        viewer.close()


def test_a_text_named_like_a_film_is_refused_with_a_reason(
    headend: ServiceProcess, tmp_path: Path
) -> None:
    def kept() -> tuple[object, list[Path]]:
        listed = fetch(f"{headend.http}/api/projects/1/videos", token=headend.token)
        return listed.json["data"], list((headend.data / "objects" / "sources").glob("*/*"))

    before = kept()
    (tmp_path / "a.mp4").write_text("This is no film.\n")
    status, answer = upload(headend, tmp_path / "a.mp4")
    assert status == 422
    assert answer["errors"]["video"][0].startswith("The file cannot be read")
    assert kept() == before
