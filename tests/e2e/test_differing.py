"""Two encoders that have little in common take turns: viewers go on, picture and sound together."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import HEVC, keeping, offsets
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import addresses, complaints, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import Running, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

GOP_SECONDS = 2.0
_AHEAD_SECONDS = 150.0  # longer than ten switches take


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What an encoder sends."""

    size: str
    fps: int = 30
    video: str = clock_video.X264
    channels: int = 2

    ahead: bool = False  # encoded before: for what costs a machine more than is left for viewers

    def command(self, url: str, folder: Path) -> list[str]:
        """Return the command of the encoder, or of one that sends what it made before."""
        if not self.ahead:
            return self._encoder(url)
        file = folder / f"{self.size}.flv"
        command = self._encoder(str(file), seconds=_AHEAD_SECONDS)
        subprocess.run(command, check=True, timeout=300)
        return [command[0], *f"-nostdin -v error -re -i {file} -c copy -f flv {url}".split()]

    def _encoder(self, target: str, seconds: float | None = None) -> list[str]:
        size, video = self.size, self.video
        return clock_video.encoder(
            target, size=size, fps=self.fps, video=video, channels=self.channels, seconds=seconds
        )


class Two(msgspec.Struct, frozen=True, kw_only=True):
    """Two encoders, and how often the primary is cut off by a drill."""

    name: str
    primary: Kind
    backup: Kind
    drills: int


QUICK = Two(
    name="480p30 stereo, HEVC 360p25 mono",
    primary=Kind(size="854x480"),
    backup=Kind(size="640x360", fps=25, video=HEVC, channels=1),
    drills=1,
)
_LONG = (
    Two(
        name="equal ones",
        primary=Kind(size="854x480"),
        backup=Kind(size="854x480"),
        drills=5,
    ),
    Two(
        name="1080p30 stereo, HEVC 720p25 mono",
        primary=Kind(size="1920x1080", ahead=True),
        backup=Kind(size="1280x720", fps=25, video=HEVC, channels=1, ahead=True),
        drills=5,
    ),
    Two(
        name="one without sound",
        primary=Kind(size="854x480"),
        backup=Kind(size="854x480", channels=0),
        drills=5,
    ),
)
_PAIRS = (*(pytest.param(two, id=two.name, marks=pytest.mark.prove) for two in (QUICK, *_LONG)),)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    environment = {
        # What viewers at normal latency are promised: no stall.
        "HEADEND_LIVE__LATENCY": "normal",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        # Encoders and browsers share this machine: one may be held up for longer than 0.7 s.
        "HEADEND_FAILOVER__DETECT_SECONDS": "2",
        "HEADEND_FAILOVER__RETURN_SECONDS": "2",
    }
    folder = tmp_path_factory.mktemp("differing") / "data"
    with service(folder, environment=environment) as headend:
        yield headend


@pytest.mark.parametrize("two", _PAIRS)
def test_encoders_that_differ_take_turns_and_picture_and_sound_stay_together(
    running: Running,
    browser: Chromium,
    two: Two,
    proof: Proof,
    tmp_path: Path,
) -> None:
    stream = pair(running)
    commands = [
        kind.command(stream.url(slot), tmp_path)
        for slot, kind in enumerate((two.primary, two.backup))
    ]
    with publishing(commands[0]):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        with (
            publishing(commands[1]),
            keeping(stream.playlist) as keeper,
        ):
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            rung = next(iter(addresses(stream.playlist)))  # a busy machine sheds the others
            viewer = browser.open(stream.watch)
            viewer.wait_until_playing(20, span=2)
            for drill in range(1, two.drills + 1):
                told = stream.command("failover-drill")["drill"]
                assert (told["from"], told["to"]) == ("primary", "backup-1")
                viewer.wait_until_playing(10, span=2)
                poll(
                    lambda drill=drill: len(stream.told("switched")) >= 2 * drill,
                    within=12,
                    what="the primary again",
                )
                viewer.wait_until_playing(10, span=2)
            # What is named from then on has the last switch behind it.
            since = time.time() + 2 * GOP_SECONDS + 0.5
            poll(lambda: max(keeper.named[rung].values()) > since + 4, within=20, what="going on")
            sample = viewer.wait_until_playing(10)
        viewer.close()
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert len(keeper.marks(rung)) <= 2 * two.drills
    for path in keeper.held[rung].stretches(tmp_path / "all.mp4"):
        assert complaints(path) == "", path
    pictures = keeper.pictures(rung, tmp_path)
    apart = offsets(keeper, rung, pictures, tmp_path, since=since)
    assert len(apart) >= 2, "flashes and beeps were seen"
    worst = max(apart, key=abs)
    proof(
        f"{two.name}: waits of the picture in Chromium, {2 * two.drills} switches",
        f"{sample.stalls}",
        "0",
    )
    proof(
        f"{two.name}: sound after picture, {2 * two.drills} switches on",
        f"{worst * 1000:+.0f} ms",
        "45 ms",
    )
    assert abs(worst) <= 0.045
    assert "mediaError bufferSeekOverHole" not in sample.faults, "a hole at a seam"
    assert sample.stalls == 0, sample
