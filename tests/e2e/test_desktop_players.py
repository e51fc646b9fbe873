"""Desktop players over a whole programme, live and recorded, each with one decoder throughout.

The encoder takes the top rung over since keyframes are rare; the source is lost, and the slate is
shown; an HEVC backup goes on air; the primary returns; and a rung is shed.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from media.ticks import VIDEO_SCALE
from tests.conftest import Proof
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import HEVC, TWO_RUNGS, X264, PlaylistArchive, archiving
from tests.support.e2e.desktop_players import PLAYERS, PlayerRun, judge, playing
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import addresses, collect, media, multivariant
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.e2e.slow_process import children_of, throttled
from tests.support.made_media import make_file
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

TOP: Final = "480p"
ENCODED: Final = "360p"
_FPS: Final = 30
_RARE_SECONDS: Final = 9  # between keyframes; the encoder takes the top rung over after 4 s
_MINUTE: Final = 60_000  # in which the clock of one source has room
_SLATE_SECONDS: Final = 6.0
# Of a core: these pictures are small, and their rungs cheap.
_SHARES: Final = (0.05, 0.03, 0.02, 0.01, 0.005)
# What must show every picture, live and of the recording. The others have limits of their own, and
# mpv stays live with the rung that it has chosen, also while that is shed.
_MUST: Final = {
    "live": ("FFmpeg 5.1", "FFmpeg 9.0"),
    "recording": ("FFmpeg 5.1", "FFmpeg 9.0", "mpv", "GStreamer, hlsdemux2"),
}


@pytest.fixture(scope="module", params=["normal", "low"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_LIVE__LATENCY": request.param,
        "HEADEND_LIVE__GOODBYE_SECONDS": "3",
        "HEADEND_LIVE__RECONNECT_SECONDS": "30",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    folder = tmp_path_factory.mktemp("players")
    folder.chmod(0o755)
    with service(folder / "data", environment=environment) as headend:
        yield headend


def source(
    folder: Path, name: str, *, minute: int, gop: int, video: str = X264, seconds: float = 50
) -> Path:
    """Encode the clock, from a minute of its own on, so that sources are told apart."""
    path = folder / f"{name}.flv"
    video = video.replace("{gop}", str(gop))
    *command, _ = clock_video.encoder(
        str(path), size=TWO_RUNGS, video=video, seconds=seconds, began=minute * _MINUTE
    )
    make_file(command, path, seconds=120)
    return path


def clocks(archive: PlaylistArchive, rendition: str, folder: Path) -> list[int | None]:
    """Return the clocks of all pictures that were listed; each init section has its decoder."""
    return [picture.stamp for picture in archive.pictures(rendition, folder)]


def shed_a_rung(stream: EncoderPair) -> None:
    """Give the engine less and less CPU until a rung is shed: the machine's speed is unknown."""
    (engine,) = children_of(stream.headend.process.pid)
    with throttled(engine) as throttle:
        for share in _SHARES:
            throttle.share = share
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                if stream.listed_events("rung shed"):
                    return
                time.sleep(0.2)
    raise AssertionError("no rung was shed")


def programme(stream: EncoderPair, folder: Path, archives: list[PlaylistArchive]) -> Iterator[None]:
    """Let everything happen; yield once the stream is live, and when all is over.

    The first of `archives`, which is there once the stream is live, tells how far it is.
    """

    def goes_on(by: float, what: str) -> None:
        before = seconds(archives[0])
        poll(lambda: seconds(archives[0]) > before + by, within=2 * by + 20, what=what)

    rare = source(folder, "rare", minute=1, gop=_RARE_SECONDS * _FPS)
    backup = source(folder, "backup", minute=3, gop=2 * _FPS, video=HEVC)
    usual = source(folder, "usual", minute=5, gop=2 * _FPS, seconds=110)
    newest = clock_video.imageio_ffmpeg.get_ffmpeg_exe()
    with publishing(ffmpeg(rare, stream.url(0))) as encoder:
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        yield
        rung = addresses(stream.playlist)[TOP]
        goes_on(14, "the top rung taken over")
        encoder.kill()
    poll(lambda: stream.listed_events("slate"), within=10, what="the slate")
    goes_on(_SLATE_SECONDS, "the slate goes on")
    with publishing([newest, *ffmpeg(backup, stream.url(1))[1:]]):
        poll(lambda: stream.listed_events("back on air"), within=10, what="the backup")
        goes_on(8, "the backup goes on")
        with publishing(ffmpeg(usual, stream.url(0))):
            poll(lambda: stream.listed_events("switched"), within=20, what="the primary again")
            goes_on(4, "the primary goes on")
            shed_a_rung(stream)
            goes_on(16, "the top rung goes on")
            stream.command("end")
    poll(lambda: media(rung).ended, within=20, what="the end")
    yield


def seconds(archive: PlaylistArchive) -> float:
    """Return how long the top rung is so far."""
    if TOP not in archive.held:
        return 0.0
    return sum(each.duration for each in list(archive.held[TOP].segments.values())) / VIDEO_SCALE


def recording(stream: EncoderPair) -> str:
    """Return the playlist of the recording."""
    event = poll(lambda: stream.listed_events("recorded"), within=20, what="the recording")[-1]
    url = f"{stream.headend.http}/videos/{event['facts']['video']}/index.m3u8"
    poll(lambda: fetch(url).status == 200, within=20, what="its playlist")
    return url


def table(
    proof: Proof, latency: str, what: str, made: list[int | None], runs: dict[str, PlayerRun]
) -> dict[str, str]:
    """Add the rows of all players; return those of which something is missing that must not."""
    faulty: dict[str, str] = {}
    for name, run in runs.items():
        decoding = judge(made, run)
        asked = "all, none smeared, no error" if name in _MUST[what] else ""
        row = f"{decoding.row}, {len(run.errors)} errors"
        proof(f"{latency} latency, {what}, {name}", row, asked)
        if asked and (decoding.decoded, decoding.smeared, run.errors) != (decoding.made, 0, []):
            faulty[f"{what}, {name}"] = f"{row}: {run.errors[:6]}"
    return faulty


def test_players_show_a_programme_and_its_recording(
    running: ServiceProcess, proof: Proof, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    latency = request.node.callspec.params["running"]
    stream = pair(running)
    archives: list[PlaylistArchive] = []
    course = programme(stream, tmp_path, archives)
    with ExitStack() as world:
        next(course)
        archives.append(world.enter_context(archiving(stream.playlist)))
        live = {name: world.enter_context(playing(name, stream.playlist)) for name in PLAYERS}
        next(course, None)
        ended = {name: run.finish(30) for name, run in live.items()}
    proof(f"{latency}, live: players that ended by themselves", str(sum(ended.values())), "")
    url = recording(stream)
    whole = PlaylistArchive(url)
    collect(url, whole.held)
    with ExitStack() as world:
        runs = {name: world.enter_context(playing(name, url)) for name in PLAYERS}
        for run in runs.values():
            run.finish(seconds(whole) + 30)
    faulty = table(proof, latency, "live", clocks(archives[0], TOP, tmp_path / "made"), live)
    faulty |= table(proof, latency, "recording", clocks(whole, TOP, tmp_path / "whole"), runs)
    assert faulty == {}
