"""Two very different encoders take turns: viewers play on, with picture and sound in sync."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Proof
from tests.support.browser import Chromium
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import HEVC, archiving, offsets
from tests.support.e2e.encoder_pair import pair
from tests.support.e2e.hls_reader import addresses, decoder_errors, multivariant
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import ServiceProcess, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

GOP_SECONDS = 2.0
_AHEAD_SECONDS = 300.0  # longer than ten switches take


class EncoderKind(msgspec.Struct, frozen=True, kw_only=True):
    """What an encoder sends."""

    size: str
    fps: int = 30
    video: str = clock_video.X264
    channels: int = 2

    ahead: bool = False  # encoded in advance, if real-time encoding would starve the viewers

    def command(self, url: str, folder: Path) -> list[str]:
        """Return the command of the encoder, or of one that sends a file encoded in advance."""
        if not self.ahead:
            return self._encoder(url)
        file = folder / f"{self.size}.flv"
        command = self._encoder(str(file), seconds=_AHEAD_SECONDS)
        subprocess.run(command, check=True, timeout=900)
        return [command[0], *f"-nostdin -v error -re -i {file} -c copy -f flv {url}".split()]

    def _encoder(self, target: str, seconds: float | None = None) -> list[str]:
        size, video = self.size, self.video
        return clock_video.encoder(
            target, size=size, fps=self.fps, video=video, channels=self.channels, seconds=seconds
        )


class EncoderPairing(msgspec.Struct, frozen=True, kw_only=True):
    """Two encoders, and the number of failover drills."""

    name: str
    primary: EncoderKind
    backup: EncoderKind
    drills: int


QUICK = EncoderPairing(
    name="480p30 stereo, HEVC 360p25 mono",
    primary=EncoderKind(size="854x480"),
    backup=EncoderKind(size="640x360", fps=25, video=HEVC, channels=1),
    drills=1,
)
_LONG = (
    EncoderPairing(
        name="equal ones",
        primary=EncoderKind(size="854x480"),
        backup=EncoderKind(size="854x480"),
        drills=5,
    ),
    EncoderPairing(
        name="1080p30 stereo, HEVC 720p25 mono",
        primary=EncoderKind(size="1920x1080", ahead=True),
        backup=EncoderKind(size="1280x720", fps=25, video=HEVC, channels=1, ahead=True),
        drills=5,
    ),
    EncoderPairing(
        name="one without sound",
        primary=EncoderKind(size="854x480"),
        backup=EncoderKind(size="854x480", channels=0),
        drills=5,
    ),
)
_PAIRS = (
    *(
        pytest.param(pairing, id=pairing.name, marks=pytest.mark.prove)
        for pairing in (QUICK, *_LONG)
    ),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        # At normal latency, viewers are promised no stall.
        "HEADEND_LIVE__LATENCY": "normal",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        # Encoders and browsers share this machine: one may be held up for longer than 0.7 s.
        "HEADEND_FAILOVER__DETECT_SECONDS": "2",
        "HEADEND_FAILOVER__RETURN_SECONDS": "2",
    }
    folder = tmp_path_factory.mktemp("differing") / "data"
    with service(folder, environment=environment) as headend:
        yield headend


@pytest.mark.parametrize("pairing", _PAIRS)
def test_encoders_that_differ_take_turns_and_picture_and_sound_stay_together(
    running: ServiceProcess,
    browser: Chromium,
    pairing: EncoderPairing,
    proof: Proof,
    tmp_path: Path,
) -> None:
    stream = pair(running)
    commands = [
        kind.command(stream.url(slot), tmp_path)
        for slot, kind in enumerate((pairing.primary, pairing.backup))
    ]
    with publishing(commands[0]):
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        with (
            publishing(commands[1]),
            archiving(stream.playlist) as archive,
        ):
            poll(lambda: stream.receives() == 2, within=10, what="both encoders")
            rung = next(iter(addresses(stream.playlist)))  # a busy machine sheds the others
            viewer = browser.open(stream.watch)
            viewer.wait_until_playing(20, span=2)
            for drill in range(1, pairing.drills + 1):
                answer = stream.command("failover-drill")["drill"]
                assert (answer["from"], answer["to"]) == ("primary", "backup-1")
                viewer.wait_until_playing(10, span=2)
                poll(
                    lambda drill=drill: len(stream.listed_events("switched")) >= 2 * drill,
                    within=25,  # its distance is not found by a beep: a return waits 15 s for it
                    what="the primary again",
                )
                viewer.wait_until_playing(10, span=2)
            # Segments listed from then on come after the last switch.
            since = time.time() + 2 * GOP_SECONDS + 0.5
            poll(lambda: max(archive.named[rung].values()) > since + 4, within=20, what="going on")
            sample = viewer.wait_until_playing(10)
        viewer.close()
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    assert len(archive.marks(rung)) <= 2 * pairing.drills
    for path in archive.held[rung].stretches(tmp_path / "all.mp4"):
        assert decoder_errors(path) == "", path
    pictures = archive.pictures(rung, tmp_path)
    apart = offsets(archive, rung, pictures, tmp_path, since=since)
    assert len(apart) >= 2, "flashes and beeps were seen"
    worst = max(apart, key=abs)
    proof(
        f"{pairing.name}: waits of the picture in Chromium, {2 * pairing.drills} switches",
        f"{sample.stalls}",
        "0",
    )
    proof(
        f"{pairing.name}: sound after picture, {2 * pairing.drills} switches on",
        f"{worst * 1000:+.0f} ms",
        "45 ms",
    )
    assert abs(worst) <= 0.045
    assert "mediaError bufferSeekOverHole" not in sample.faults, "a hole at a seam"
    assert sample.stalls == 0, sample
