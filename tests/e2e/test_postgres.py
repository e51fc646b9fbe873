"""The whole service with its catalog in PostgreSQL, whose server is restarted in mid-stream."""

from pathlib import Path

import pytest

from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import Running, fetch, service
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e


def _stream(running: Running) -> dict[str, object] | None:
    """Return the first stream as the API shows it; None while it cannot."""
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
                    # Viewers have what they had: what is on disk asks no database.
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
