"""The whole service with its catalog in PostgreSQL, whose server is restarted in mid-stream."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.e2e.hls_reader import CollectedRendition, collect
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, run_headend, service
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.engine.upload_files import film
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


def _stream(running: ServiceProcess) -> dict[str, object] | None:
    """Return the first stream's record; None while the API is unavailable."""
    answer = fetch(f"{running.http}/api/projects/1/streams", token=running.token)
    if answer.status != 200:
        assert answer.status == 503, answer.text
        assert "Retry-After" in answer.headers or "retry-after" in answer.headers
        return None
    listed = answer.json["data"]
    assert isinstance(listed, list)
    found: dict[str, object] = listed[-1]  # pyright: ignore[reportUnknownVariableType]  # JSON
    return found  # pyright: ignore[reportUnknownVariableType]  # JSON


def test_a_stream_goes_on_while_the_database_is_restarted(
    tmp_path: Path, small_source: Path, postgres_server: PostgresServer
) -> None:
    with postgres_server.empty_database() as database:
        name = database.partition("@/")[2].partition("?")[0]
        environment = {
            "HEADEND_DATABASE__URL": postgres_server.url(name, "guarded", PASSWORD),
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
            "HEADEND_LIVE__GOODBYE_SECONDS": "1",
        }
        with service(tmp_path / "data", environment=environment) as running:
            assert not (tmp_path / "data" / "catalog.sqlite").exists()
            assert fetch(f"{running.http}/readyz").json["problems"] == []
            send = ffmpeg(small_source, f"{running.server}/{running.key}", "-stream_loop", "-1")
            with publishing(send) as encoder:

                def live() -> bool:
                    stream = _stream(running)
                    return stream is not None and stream["live"] is True

                poll(live, within=30, what="the stream is live")
                postgres_server.stop()
                try:
                    assert fetch(f"{running.http}/readyz").status == 503
                    assert _stream(running) is None
                    # Viewers are still served, since media on disk need no database.
                    assert encoder.poll() is None
                finally:
                    postgres_server.start()
                poll(live, within=30, what="the API answers again")
                assert fetch(f"{running.http}/readyz").json["problems"] == []
                assert fetch(running.playlist).status == 200
                running.add_stream("Another")
                assert encoder.poll() is None

            def off() -> bool:
                stream = _stream(running)
                return stream is not None and stream["live"] is False

            poll(off, within=30, what="the stream is off air")
            assert running.stop() == 0
        log = running.log.read_text()
        assert PASSWORD not in log + running.printed
        assert "Traceback" not in log


def test_an_installation_moves_from_sqlite_and_its_videos_play(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    path = film(tmp_path / "film.mp4", "-c:v", "libx264", "-c:a", "aac", seconds=4)
    small = {"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    data = tmp_path / "data"
    with service(data, environment=small) as running, postgres_server.empty_database() as database:
        name = database.partition("@/")[2].partition("?")[0]
        url = postgres_server.url(name, "guarded", PASSWORD)
        status, answer = upload(running, path)
        assert status == 201
        video = answer["video"]
        completed(running, video["id"], within=60)
        playlist = f"/videos/{video['hash']}/index.m3u8"
        before = _media(f"{running.http}{playlist}")
        assert run_headend("migrate", "--data", str(data), "--to", url).returncode == 1, "it runs"
        assert running.stop() == 0
        moved = run_headend("migrate", "--data", str(data), "--to", url)
        assert moved.returncode == 0, moved.stderr
        assert PASSWORD not in moved.stdout + moved.stderr
        assert not (data / "catalog.sqlite").exists()
        again = run_headend("migrate", "--data", str(data), "--to", url)
        assert (again.returncode, "was moved before" in again.stderr) == (1, True)
        forgotten = _serve_once(data)
        assert "do not belong to the catalog" in forgotten, "database.url is not set"
        on_server = {**small, "HEADEND_DATABASE__URL": url}
        with service(data, environment=on_server) as moved_to:
            assert _media(f"{moved_to.http}{playlist}") == before
            assert moved_to.key == running.key
            second, answer = upload(moved_to, path)
            assert (second, answer["video"]["id"]) == (201, video["id"] + 1)
            assert moved_to.stop() == 0
        assert not (data / "objects" / "trash").exists()


def _media(playlist: str) -> dict[str, list[bytes]]:
    """Return all media listed in a video's playlists, by rendition."""
    collected: dict[str, CollectedRendition] = {}
    collect(playlist, collected)
    data = {
        name: [
            *rendition.inits.values(),
            *(segment.data for segment in rendition.segments.values()),
        ]
        for name, rendition in collected.items()
    }
    assert len(data) > 1
    assert all(len(rendition) > 1 for rendition in data.values())
    return data


def _serve_once(data: Path) -> str:
    """Return the message of a refused start."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("headend")), "serve", "--data", data, "--http",
         "127.0.0.1:0", "--rtmp", "[::]:0", "--rtmps", ""],
        capture_output=True,
        text=True,
        timeout=20 * SCALE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr
