"""Files of phones, cameras and editors, uploaded with curl, play in Chromium through hls.js."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.conftest import Proof
from tests.e2e.test_videos import completed, get_json, upload
from tests.support.browser import Chromium, PlayerSample
from tests.support.e2e.hls_reader import CollectedRendition, collect, decoder_errors
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.transcode.corpus import CORPUS
from tests.support.transcode.corpus_items import Item

pytestmark = pytest.mark.e2e

_PLAYS = 20.0  # seconds
_FEW = ("trimmed.mp4", "silent.mp4", "sound-m4a.m4a")


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """One service for all files."""
    environment = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    with service(tmp_path_factory.mktemp("formats") / "data", environment=environment) as running:
        yield running


@pytest.mark.parametrize("name", [*_FEW[:2], pytest.param(_FEW[2], marks=pytest.mark.prove)])
def test_a_file_of_a_phone_plays(
    shared_service: ServiceProcess, browser: Chromium, tmp_path: Path, name: str
) -> None:
    (item,) = [each for each in CORPUS if each.file == name]
    _plays(shared_service, browser, item, tmp_path)


@pytest.mark.prove
def test_every_file_of_the_corpus_plays_or_is_refused_with_a_reason(
    shared_service: ServiceProcess, browser: Chromium, tmp_path: Path, proof: Proof
) -> None:
    failed: dict[str, str] = {}
    for item in CORPUS:
        folder = tmp_path / item.file.replace(".", "-")
        folder.mkdir()
        try:
            _plays(shared_service, browser, item, folder)
        except (AssertionError, TimeoutError) as error:
            failed[item.file] = str(error)[:500]
    assert failed == {}
    played = sum(not item.refused for item in CORPUS)
    measured = f"{played} play, {len(CORPUS) - played} refused with a reason"
    proof("files as phones, cameras and editors make them, in Chromium", measured, "all")


def _plays(shared_service: ServiceProcess, browser: Chromium, item: Item, folder: Path) -> None:
    path = folder / item.file
    item.make(path)
    status, answer = upload(shared_service, path)
    if item.refused:
        assert status == 422, answer
        assert item.refused in answer["errors"]["video"][0]
        return
    assert status == 201, answer
    number, hash_ = answer["video"]["id"], answer["video"]["hash"]
    last = completed(shared_service, number, within=120)[-1]
    assert item.warning in " ".join(last["warnings"])
    record = get_json(shared_service, f"/api/videos/{number}")
    renditions: dict[str, CollectedRendition] = {}
    collect(record["video"], renditions)
    for name, collected in renditions.items():
        assert decoder_errors(collected.file(folder / f"{name}.mp4")) == "", name
    assert record["image_urls"]
    for address in record["image_urls"].values():
        assert fetch(urljoin(shared_service.http, address)).body[:3] == b"\xff\xd8\xff"
    _watched(shared_service, browser, item, hash_)


def _watched(shared_service: ServiceProcess, browser: Chromium, item: Item, hash_: str) -> None:
    """Watch the video until half of it has played, with picture and sound."""

    def is_played(sample: PlayerSample) -> bool:
        has_picture = item.size is None or (sample.width > 0 and sample.frames > 0)
        has_sound = sample.audio_bytes > 0 or not item.sound
        return has_picture and has_sound and sample.position >= min(1.5, item.seconds / 2)

    viewer = browser.open(f"{shared_service.http}/watch/{hash_}")
    try:
        viewer.wait_for("playing", _PLAYS)
        viewer.press("k")
        sample = viewer.wait(is_played, _PLAYS, "played")
        assert not [fault for fault in sample.faults if "fatal" in fault]
    finally:
        viewer.close()
