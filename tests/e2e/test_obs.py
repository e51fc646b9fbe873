"""The real OBS publishes over every transport; every rung plays in Chromium and decodes in ffmpeg.

OBS draws with the CPU here, which may leave too little for the encoded rungs. If they are shed, the
proof says so.
"""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.hls_reader import CollectedRendition, collect, decoder_errors
from tests.support.e2e.obs import obs
from tests.support.e2e.service import ServiceProcess, fetch, settle
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]


def shows(headend: ServiceProcess, viewer: Viewer, height: int) -> bool:
    """Choose a rung, and return whether it was shown; it may have been shed.

    A page that has opened the stream before still lists a rung that is shed.
    """
    if height not in viewer.wait_until_playing(20).heights:
        return False
    try:
        viewer.force(height)
    except (AssertionError, TimeoutError):
        if not headend.has_shed():
            raise
        return False
    viewer.wait_until_playing(20)
    return True


@pytest.mark.parametrize(
    ("scheme", "host"),
    [
        ("rtmp", "127.0.0.1"),
        ("rtmp", "[::1]"),
        ("rtmps", "localhost"),
        ("rtmps", "127.0.0.1"),
    ],
)
def test_obs_publishes_and_every_rung_plays(
    headend: ServiceProcess,
    source: Path,
    browser: Chromium,
    tmp_path: Path,
    proof: Proof,
    scheme: str,
    host: str,
) -> None:
    # OBS ends with its display, without a goodbye: the slate of another encoder would follow.
    settle(headend, reconnect_seconds=0, goodbye_seconds=0)
    secure = scheme == "rtmps"
    port = headend.port_of(headend.secure_server if secure else headend.server)
    home = tmp_path / "obs"
    home.mkdir()
    viewer = browser.open(headend.watch)
    collected: dict[str, CollectedRendition] = {}
    with obs(
        home,
        server=f"{scheme}://{host}:{port}/live",
        key=headend.key,
        clip=source,
        trust=Path(headend.authority) if secure else None,
    ):
        viewer.wait_until_playing(40)
        heights: list[int] = []
        for height in (360, 480, 720):
            if shows(headend, viewer, height):
                heights.append(height)
            collect(headend.playlist, collected)
        viewer.screenshot(tmp_path / "obs.png")

    poll(lambda: collect(headend.playlist, collected), within=90, what="the run's end")
    # A rung that was shed and came back has gaps.
    names = ("720p", "audio") if headend.has_shed() else ("720p", "480p", "360p", "audio")
    assert heights == [360, 480, 720] or (headend.has_shed() and heights[-1:] == [720])
    files = {name: collected[name].file(tmp_path / f"{name}.mp4") for name in names}
    assert {name: decoder_errors(file) for name, file in files.items()} == dict.fromkeys(files, "")
    assert not [fault for fault in viewer.wait_for("ended", 30).faults if "fatal" in fault]
    playing = "720p plays (the others were shed)" if headend.has_shed() else "all rungs play"
    required = "all rungs play, ffmpeg is silent"
    proof(f"OBS over {scheme} to {host}", f"{playing}, ffmpeg is silent", required)


def test_obs_publishes_with_the_profile_that_is_downloaded(
    headend: ServiceProcess, source: Path, tmp_path: Path, proof: Proof
) -> None:
    address = f"{headend.http}/api/streams/{headend.number}"
    profile = fetch(f"{address}/obs-profile?resolution=480p", token=headend.token)
    assert profile.status == 200, profile.text
    home = tmp_path / "obs"
    home.mkdir()

    def settled() -> dict[str, Any] | None:
        answer = fetch(f"{address}/ingest", token=headend.token)
        if answer.status != 200:
            return None
        (slot,) = cast("dict[str, Any]", answer.json)["data"]["slots"] or [{"video": None}]
        video = slot["video"]
        return slot if video is not None and video["keyframes"]["intervals"] >= 3 else None

    with obs(home, profile=profile.body, clip=source):
        slot = poll(settled, within=60, what="three keyframe intervals")
    video = slot["video"]
    assert (video["codec"], video["width"], video["height"]) == ("H.264", 852, 480)
    assert slot["audio"]["codec"] == "AAC"
    assert video["plays_everywhere"] is True
    assert video["b_frames"] <= 2
    assert video["keyframes"]["fixed"] is True
    assert video["keyframes"]["median_seconds"] == pytest.approx(2, abs=0.05)
    proof("OBS with the downloaded profile", "H.264 480p, keyframes every 2 s", "the same")
