"""A live run becomes a video: at once, without being encoded or copied again."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from media.ticks import VIDEO_SCALE
from tests.support.browser import Chromium
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    media,
    multivariant,
)
from tests.support.e2e.publishers import ffmpeg, make_source, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.e2e.thumbnails import difference, fetch_thumbnails, first_picture
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

Json = dict[str, Any]  # Any: what the tests are about to find out


def recordings(headend: ServiceProcess) -> list[Json]:
    answer = fetch(f"{headend.http}/api/projects/1/videos", token=headend.token)
    assert answer.status == 200, answer.text
    videos = answer.json["data"]
    assert isinstance(videos, list)
    return videos  # pyright: ignore[reportUnknownVariableType]  # JSON


def shown(headend: ServiceProcess, video: int) -> Json:
    answer = fetch(f"{headend.http}/api/videos/{video}", token=headend.token)
    assert answer.status == 200, answer.text
    record = answer.json["data"]
    assert isinstance(record, dict)
    return record  # pyright: ignore[reportUnknownVariableType]  # JSON


def recorded(headend: ServiceProcess, *, within: float) -> Json:
    """Wait for the only video."""
    poll(lambda: recordings(headend), within=within, what="a video")
    (video,) = recordings(headend)
    return video


def last_of(url: str) -> int:
    playlist = media(addresses(url)["audio"])
    return playlist.sequence + len(playlist.segments)


def files(headend: ServiceProcess, room: str) -> dict[str, Path]:
    """Return the segments and init sections in a folder, by rendition and name."""
    folder = headend.data / "objects" / room
    paths = [*folder.rglob("*.m4s"), *folder.rglob("init-*.mp4")]
    return {f"{path.parent.name}/{path.name}": path for path in paths}


@pytest.fixture(scope="module")
def small_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source with the aspect ratio of thumbnails; 8 s."""
    return make_source(tmp_path_factory.mktemp("source") / "a.flv", seconds=8, size="640x360")


def test_a_run_becomes_a_video_that_plays(
    headend: ServiceProcess, small_source: Path, browser: Chromium, tmp_path: Path
) -> None:
    command = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
    live: dict[str, CollectedRendition] = {}
    with publishing(command) as encoder:
        poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
        poll(lambda: last_of(headend.playlist) >= 3, within=20, what="three segments")
        encoder.send_signal(signal.SIGINT)
        encoder.wait(timeout=10 * SCALE)
        before = last_of(headend.playlist)
    collect(headend.playlist, live)
    with publishing(command):
        poll(lambda: last_of(headend.playlist) >= before + 3, within=20, what="three more")
        assert recordings(headend) == []
    playlists = addresses(headend.playlist)
    poll(lambda: media(playlists["audio"]).ended, within=20, what="ENDLIST")
    ended = time.monotonic()
    video = recorded(headend, within=5)
    seconds = time.monotonic() - ended
    assert seconds < 5 * SCALE
    collect(headend.playlist, live)
    same_as_live(headend, video, live)
    has_previews(headend, video)
    plays(headend, video, browser, tmp_path)


def same_as_live(headend: ServiceProcess, video: Json, live: dict[str, CollectedRendition]) -> None:
    """Check that the video has the bytes of the live stream, and shares its files on disk."""
    base = f"{headend.http}/videos/{video['hash']}/index.m3u8"
    collected: dict[str, CollectedRendition] = {}
    collect(base, collected)
    assert set(collected) == set(live)
    for name, rendition in collected.items():
        live_segments = [segment for _, segment in sorted(live[name].segments.items())]
        segments = [segment for _, segment in sorted(rendition.segments.items())]
        assert [segment.data for segment in segments] == [segment.data for segment in live_segments]
        # The first segment of the live playlist may follow one that is no longer listed.
        marks = [segment.discontinuity for segment in live_segments]
        assert [segment.discontinuity for segment in segments][1:] == marks[1:]
        playlist = media(addresses(base)[name])
        assert playlist.ended
        assert playlist.whole
    of_live, of_video = files(headend, f"live/{headend.hash}"), files(headend, "videos")
    assert set(of_live) <= set(of_video)
    for name, path in of_live.items():
        assert path.samefile(of_video[name]), name
    detail = shown(headend, int(video["id"]))
    for rung in detail["resolutions"]:
        mine = [path for name, path in of_video.items() if name.startswith(rung["resolution"])]
        assert rung["size"] == sum(path.stat().st_size for path in mine)
        assert (rung["transcoded"], rung["transcode_duration"]) == (1, 0)
    length = sum(segment.duration for segment in collected["audio"].segments.values()) / 90_000
    assert abs(float(detail["length"]) - length) < 0.1


def has_previews(headend: ServiceProcess, video: Json) -> None:
    """Check that the thumbnail of each moment is the picture that plays then."""

    def listed() -> str | None:
        address = fetch(f"{headend.http}/json/videos/{video['hash']}.json").json["previews"]
        return str(address) if address else None

    poll(listed, within=30, what="previews")
    address = listed()
    assert address is not None
    collected: dict[str, CollectedRendition] = {}
    collect(f"{headend.http}/videos/{video['hash']}/index.m3u8", collected)
    (rendition,) = [
        collected_rendition for name, collected_rendition in collected.items() if name != "audio"
    ]
    starts: dict[int, bytes] = {}
    long: set[int] = set()
    elapsed = 0
    for _, segment in sorted(rendition.segments.items()):
        data = rendition.inits[segment.init] + segment.data
        starts[round(elapsed / 90)] = first_picture(data)
        if segment.duration >= VIDEO_SCALE // 2:
            long.add(round(elapsed / 90))
        elapsed += segment.duration
    thumbnails = fetch_thumbnails(address)
    # A thumbnail is taken every 0.5 s of a short video: a shorter segment, cut by a change of
    # encoders, may have none.
    assert long
    assert long <= set(thumbnails) <= set(starts)
    assert list(thumbnails) == sorted(thumbnails)
    for at, thumbnail in thumbnails.items():
        unlike = [difference(thumbnail, each) for each in starts.values()]
        # The source repeats, so that other moments may look the same.
        assert difference(thumbnail, starts[at]) <= min(unlike) + 1
        assert max(unlike) > 20


def plays(headend: ServiceProcess, video: Json, browser: Chromium, tmp_path: Path) -> None:
    collected: dict[str, CollectedRendition] = {}
    collect(f"{headend.http}/videos/{video['hash']}/index.m3u8", collected)
    for name, rendition in collected.items():
        for stretch in rendition.stretches(tmp_path / f"{name}.mp4"):
            assert decoder_errors(stretch) == "", stretch
    viewer = browser.open(f"{headend.http}/watch/{video['hash']}")
    viewer.wait_for("playing", 20)  # ready, but paused until the viewer starts it
    viewer.press("k")
    viewer.wait_until_playing(20)
    length = float(shown(headend, int(video["id"]))["length"])
    viewer.evaluate(f"() => {{ window.headend.video.currentTime = {length - 2}; }}")
    viewer.wait(lambda sample: sample.position > length - 1, 20, "near its end")
    sample = viewer.sample()
    assert sample is not None
    assert not [fault for fault in sample.faults if fault.endswith("fatal")], sample.faults
    refused = fetch(
        f"{headend.http}/api/videos/{video['id']}/retry", method="POST", token=headend.token
    )
    assert refused.status == 409
    assert "Only a video that has failed" in refused.text


@pytest.mark.prove
def test_a_run_that_a_kill_cut_off_becomes_a_video(tmp_path: Path, small_source: Path) -> None:
    folder = tmp_path / "data"
    least = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    with (
        service(folder, environment=least) as first,
        publishing(ffmpeg(small_source, f"{first.server}/{first.key}", "-stream_loop", "-1")),
    ):
        poll(lambda: multivariant(first.playlist), within=20, what="a playlist")
        # One segment may be listed but not stored yet; it becomes a gap.
        poll(lambda: last_of(first.playlist) >= 4, within=20, what="three stored segments")
        first.stop(signal.SIGKILL)
    environment = {**least, "HEADEND_LIVE__RECONNECT_SECONDS": "2"}
    with service(folder, environment=environment) as second:
        live = media(addresses(second.playlist)["audio"])
        stored = [segment for segment in live.segments if not segment.gap]
        assert live.sequence == 0
        assert len(stored) >= 3
        video = recorded(second, within=15)
        audio = media(addresses(f"{second.http}/videos/{video['hash']}/index.m3u8")["audio"])
        assert len(audio.segments) == len(stored)
        assert not any(segment.gap for segment in audio.segments)


@pytest.mark.prove
def test_a_stream_that_is_deleted_on_air_leaves_a_video_for_its_owner(
    headend: ServiceProcess, small_source: Path
) -> None:
    stream = headend.add_stream("For a day")
    playlist = f"{headend.http}/live/{stream['hash']}/index.m3u8"
    url = f"{headend.server}/{stream['stream']}"
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        poll(lambda: multivariant(playlist), within=20, what="a playlist")
        poll(lambda: last_of(playlist) >= 3, within=20, what="three segments")
        deletion = fetch(
            f"{headend.http}/api/streams/{stream['id']}", method="DELETE", token=headend.token
        )
        assert deletion.status == 204, deletion.text
        video = recorded(headend, within=15)
    assert (video["completed"], video["published"]) == (True, False)
    assert str(video["title"]).startswith("For a day, 20")
    address = f"{headend.http}/videos/{video['hash']}/index.m3u8"
    assert fetch(address).status == 404
    publication = fetch(
        f"{headend.http}/api/videos/{video['id']}/publish", method="POST", token=headend.token
    )
    assert publication.status == 200, publication.text
    poll(lambda: fetch(address).status == 200, within=10, what="its playlist")
    audio = media(addresses(address)["audio"])
    assert len(audio.segments) >= 3
    assert not any(segment.gap for segment in audio.segments)
    assert not (headend.data / "objects" / "live" / str(stream["hash"])).exists()


@pytest.mark.prove
def test_without_recording_nothing_is_kept_of_a_run(tmp_path: Path, small_source: Path) -> None:
    environment = {
        "HEADEND_RECORDING__ENABLED": "false",
        "HEADEND_LIVE__GOODBYE_SECONDS": "0",
        "HEADEND_LIVE__RECONNECT_SECONDS": "2",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path / "data", environment=environment) as running:
        with publishing(ffmpeg(small_source, f"{running.server}/{running.key}")):
            poll(lambda: multivariant(running.playlist), within=20, what="a playlist")
        poll(lambda: media(addresses(running.playlist)["audio"]).ended, within=20, what="its end")
        time.sleep(1)  # longer than a recording would take
        assert recordings(running) == []
        assert files(running, "videos") == {}
