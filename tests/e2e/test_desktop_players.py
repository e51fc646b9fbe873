"""Desktop players over a whole programme, live and recorded, each with one decoder throughout.

The encoder takes the top rung over since keyframes are rare; the source is lost, and the slate is
shown; an HEVC backup goes on air; the primary returns; and a rung is shed.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Proof
from tests.support.e2e import clock_video
from tests.support.e2e.clock_video import HEVC, TWO_RUNGS, X264, PlaylistArchive, archiving
from tests.support.e2e.desktop_players import PLAYERS, Decoding, PlayerRun, judge, playing
from tests.support.e2e.encoder_pair import EncoderPair, pair
from tests.support.e2e.hls_reader import addresses, collect, media, multivariant
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import ServiceProcess, fetch, service
from tests.support.e2e.slow_process import children_of
from tests.support.made_media import make_file
from tests.support.waiting import poll

pytestmark = [pytest.mark.e2e, pytest.mark.prove]

TOP: Final = "480p"
ENCODED: Final = "360p"
_FPS: Final = 30
_RARE_SECONDS: Final = 9  # between keyframes; the encoder takes the top rung over after 4 s
_MINUTE: Final = 60_000  # in which the clock of one source has room
_SLATE_SECONDS: Final = 6.0
_OF_FFMPEG: Final = ("FFmpeg 5.1", "FFmpeg 9.0", "mpv")


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


def source(folder: Path, name: str, *, minute: int, gop: int, video: str = X264) -> Path:
    """Encode 50 s of the clock, in a minute of its own, so that sources are told apart."""
    path = folder / f"{name}.flv"
    video = video.replace("{gop}", str(gop))
    *command, _ = clock_video.encoder(
        str(path), size=TWO_RUNGS, video=video, seconds=50, began=minute * _MINUTE
    )
    make_file(command, path, seconds=120)
    return path


def clocks(archive: PlaylistArchive, rendition: str, folder: Path) -> list[int | None]:
    """Return the clocks of all pictures that were listed; each init section has its decoder."""
    return [picture.stamp for picture in archive.pictures(rendition, folder)]


def shed_a_rung(stream: EncoderPair) -> None:
    """Stop the engine until its run is so late that a rung is shed.

    A real overload lasts differently on each machine.
    """
    (engine,) = children_of(stream.headend.process.pid)
    os.kill(engine, signal.SIGSTOP)
    try:
        poll(lambda: stream.listed_events("rung shed"), within=10, what="a rung is shed")
    finally:
        os.kill(engine, signal.SIGCONT)


def programme(stream: EncoderPair, folder: Path) -> Iterator[None]:
    """Let everything happen; yield once the stream is live, and when all is over."""
    rare = source(folder, "rare", minute=1, gop=_RARE_SECONDS * _FPS)
    backup = source(folder, "backup", minute=3, gop=2 * _FPS, video=HEVC)
    usual = source(folder, "usual", minute=5, gop=2 * _FPS)
    newest = clock_video.imageio_ffmpeg.get_ffmpeg_exe()
    with publishing(ffmpeg(rare, stream.url(0))) as encoder:
        poll(lambda: multivariant(stream.playlist), within=20, what="a playlist")
        yield
        rung = addresses(stream.playlist)[TOP]
        poll(lambda: seconds(rung) > 16, within=40, what="the top rung taken over")
        encoder.kill()
    poll(lambda: stream.listed_events("slate"), within=10, what="the slate")
    before = seconds(rung)
    poll(lambda: seconds(rung) > before + _SLATE_SECONDS, within=20, what="the slate goes on")
    with publishing([newest, *ffmpeg(backup, stream.url(1))[1:]]):
        poll(lambda: stream.listed_events("back on air"), within=10, what="the backup")
        before = seconds(rung)
        poll(lambda: seconds(rung) > before + 8, within=30, what="the backup goes on")
        primary = publishing(ffmpeg(usual, stream.url(0)))
        with primary as encoder:
            poll(lambda: stream.listed_events("switched"), within=20, what="the primary again")
            before = seconds(rung)
            poll(lambda: seconds(rung) > before + 4, within=20, what="the primary goes on")
            shed_a_rung(stream)
            before = seconds(rung)
            poll(lambda: seconds(rung) > before + 14, within=40, what="the top rung goes on")
            stream.command("end")
    poll(lambda: media(rung).ended, within=20, what="the end")
    yield


def seconds(address: str) -> float:
    """Return how long a rendition is so far; the playlist keeps all of it."""
    return sum(each.duration for each in media(address).segments) / 90_000


def recording(stream: EncoderPair) -> str:
    """Return the playlist of the recording."""
    event = poll(lambda: stream.listed_events("recorded"), within=20, what="the recording")[-1]
    url = f"{stream.headend.http}/videos/{event['facts']['video']}/index.m3u8"
    poll(lambda: fetch(url).status == 200, within=20, what="its playlist")
    return url


def table(proof: Proof, what: str, made: list[int | None], runs: dict[str, PlayerRun]) -> None:
    """Add the rows of all players, and require of FFmpeg and mpv that nothing is missing."""
    found: dict[str, Decoding] = {name: judge(made, run) for name, run in runs.items()}
    for name, decoding in found.items():
        errors = runs[name].errors
        asked = "all, none smeared, no error" if name in _OF_FFMPEG else ""
        proof(f"{what}, {name}", f"{decoding.row}; {len(errors)} errors {errors[:2]}", asked)
    for name in _OF_FFMPEG:
        decoding = found[name]
        assert (decoding.decoded, decoding.smeared, runs[name].errors) == (decoding.made, 0, [])


def test_players_show_a_programme_and_its_recording(
    running: ServiceProcess, proof: Proof, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    latency = request.node.callspec.params["running"]
    stream = pair(running)
    course = programme(stream, tmp_path)
    with ExitStack() as world:
        next(course)
        archive = world.enter_context(archiving(stream.playlist))
        live = {
            name: world.enter_context(playing(name, stream.playlist, tmp_path / f"live {name}"))
            for name in PLAYERS
        }
        next(course, None)
        ended = {name: run.finish(30) for name, run in live.items()}
    proof(f"{latency}, live: players that ended by themselves", str(sum(ended.values())), "")
    url = recording(stream)
    whole = PlaylistArchive(url)
    collect(url, whole.held)
    with ExitStack() as world:
        runs = {
            name: world.enter_context(playing(name, url, tmp_path / f"recording {name}"))
            for name in PLAYERS
        }
        length = seconds(addresses(url)[TOP])
        for run in runs.values():
            run.finish(length + 30)
    table(proof, f"{latency}, live", clocks(archive, TOP, tmp_path / "made"), live)
    table(proof, f"{latency}, recording", clocks(whole, TOP, tmp_path / "whole"), runs)
