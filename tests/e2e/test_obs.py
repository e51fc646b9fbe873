"""The real OBS publishes over every road; every rung plays in Chromium and decodes in ffmpeg."""

from pathlib import Path

import pytest

from tests.browser import Chromium
from tests.conftest import Proof
from tests.e2e.obs import obs
from tests.e2e.service import Running
from tests.e2e.viewing import Collected, addresses, collect, complaints, media, until

pytestmark = [pytest.mark.e2e, pytest.mark.prove]


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
    headend: Running,
    source: Path,
    browser: Chromium,
    tmp_path: Path,
    proof: Proof,
    scheme: str,
    host: str,
) -> None:
    secure = scheme == "rtmps"
    port = headend.port_of(headend.secure_server if secure else headend.server)
    home = tmp_path / "obs"
    home.mkdir()
    viewer = browser.open(headend.watch)
    held: dict[str, Collected] = {}
    with obs(
        home,
        server=f"{scheme}://{host}:{port}/live",
        key=headend.key,
        clip=source,
        trust=Path(headend.authority) if secure else None,
    ):
        viewer.wait_until_playing(40)
        for height in (360, 480, 720):
            viewer.force(height)
            viewer.wait_until_playing(20)
            collect(headend.playlist, held)
        viewer.screenshot(tmp_path / "obs.png")

    def ended() -> bool:
        collect(headend.playlist, held)
        return all(media(address).ended for address in addresses(headend.playlist).values())

    until(ended, within=90, what="the run's end")
    files = {name: what.file(tmp_path / f"{name}.mp4") for name, what in held.items()}
    assert set(files) == {"720p", "480p", "360p", "audio"}
    assert {name: complaints(file) for name, file in files.items()} == dict.fromkeys(files, "")
    assert not [fault for fault in viewer.wait_for("ended", 30).faults if "fatal" in fault]
    proof(f"OBS over {scheme} to {host}", "all rungs play, ffmpeg is silent", "the same")
