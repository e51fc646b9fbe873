"""The lines of the demo of several hosts."""

from scripts.demo_hosts import count_text, owner_text
from tests.support.e2e.strict_player import Follower


def test_a_new_owner_is_named_with_the_time_since_the_kill() -> None:
    assert owner_text("a", None, 12.0) == "ingest host a runs the stream"
    assert owner_text("b", 10.0, 10.94) == "ingest host b runs the stream, 0.9 s after the kill"


def test_a_viewer_that_misses_something_reports_it() -> None:
    viewer = Follower("http://127.0.0.1/index.m3u8")
    viewer.segments, viewer.marks = 48, {"480p": 2, "audio": 1}
    summary = "a viewer has got 48 segments, 2 discontinuities: nothing missing, nothing wrong"
    assert count_text(viewer) == summary
    viewer.faults.append("6.m4s: 404, 0 bytes")
    assert count_text(viewer).endswith("discontinuities: 6.m4s: 404, 0 bytes")
