"""A stream with two real encoders, one of which dies, hangs and returns: its viewers play on."""

import itertools
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from media.ticks import VIDEO_SCALE
from tests.support.e2e.hls_reader import addresses, media, multivariant
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch
from tests.support.e2e.strict_player import following
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

DETECT_SECONDS = 0.7
RETURN_SECONDS = 10.0
GOP_SECONDS = 2.0
Json = dict[str, Any]  # Any: what the API answers


def record(headend: ServiceProcess) -> Json:
    answer = fetch(f"{headend.http}/api/streams/1", token=headend.token)
    assert answer.status == 200, answer.text
    return cast("Json", answer.json["data"])


def live_state(headend: ServiceProcess) -> tuple[bool, int, bool, bool]:
    """Return: live, the number of sending encoders, backup sends, backup is on air."""
    stream = record(headend)
    (backup,) = stream["backups"]
    return stream["live"], stream["receiving_count"], backup["live"], backup["publish"]


def switches(headend: ServiceProcess) -> list[Json]:
    """Return the owner's events about switches, oldest first."""
    answer = fetch(f"{headend.http}/api/projects/1/events", token=headend.token)
    events = cast("list[Json]", answer.json["data"])
    return [each["facts"] for each in events if each["type"] == "switched"][::-1]


def newest(headend: ServiceProcess) -> int:
    playlist = media(addresses(headend.playlist)["audio"])
    return playlist.sequence + len(playlist.segments)


def clocks(headend: ServiceProcess) -> Iterator[tuple[float, float]]:
    """Yield each segment's listed start time, and that expected from the previous lengths."""
    playlist = media(addresses(headend.playlist)["audio"])
    for before, after in itertools.pairwise(playlist.segments):
        assert before.wall_us is not None
        assert after.wall_us is not None
        yield after.wall_us / 1e6, before.wall_us / 1e6 + before.duration / VIDEO_SCALE


def commands(headend: ServiceProcess, source: Path) -> tuple[list[str], list[str]]:
    """Return the commands of the primary and the backup, which is a second ahead in its film."""
    (backup,) = record(headend)["backups"]
    loop = ("-stream_loop", "-1")
    return (
        ffmpeg(source, f"{headend.server}/{headend.key}", *loop),
        ffmpeg(source, f"{backup['rtmp_url']}/{headend.key}", *loop, "-ss", "1"),
    )


def both_on(headend: ServiceProcess) -> None:
    poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
    poll(lambda: live_state(headend) == (True, 2, True, False), within=10, what="both encoders")
    # Before its first keyframe, the backup could not take over.
    before = newest(headend)
    poll(lambda: newest(headend) >= before + 2, within=15, what="some segments")


@pytest.mark.prove
def test_a_killed_primary_is_replaced_by_the_backup_and_takes_over_again_when_it_is_back(
    headend: ServiceProcess, small_source: Path
) -> None:
    primary, backup = commands(headend, small_source)
    with publishing(primary) as first:
        poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
        with publishing(backup) as second, following(headend.playlist) as viewer:
            both_on(headend)
            run = addresses(headend.playlist)
            before = newest(headend)
            first.send_signal(signal.SIGKILL)
            first.wait()
            poll(lambda: live_state(headend) == (True, 1, True, True), within=2, what="the backup")
            poll(lambda: newest(headend) >= before + 3, within=12, what="going on")
            assert addresses(headend.playlist) == run
            with publishing(primary):
                began = time.monotonic()
                poll(
                    lambda: live_state(headend) == (True, 2, True, False),
                    within=RETURN_SECONDS + GOP_SECONDS + 8,
                    what="the primary again",
                )
                assert time.monotonic() - began >= RETURN_SECONDS - 1
                before = newest(headend)
                poll(lambda: newest(headend) >= before + 2, within=12, what="going on")
                assert addresses(headend.playlist) == run
                assert second.poll() is None
            # The primary says goodbye: the backup takes over at once.
            poll(lambda: live_state(headend) == (True, 1, True, True), within=2, what="the backup")
            before = newest(headend)
            poll(lambda: newest(headend) >= before + 2, within=12, what="going on")
            assert addresses(headend.playlist) == run
    listed = [(each["from"], each["to"], each["reason"]) for each in switches(headend)]
    assert listed == [
        ("primary", "backup-1", "lost"),
        ("backup-1", "primary", "returned"),
        ("primary", "backup-1", "lost"),
    ]
    lost, returned, _ = (each["gap_ms"] / 1000 for each in switches(headend))
    assert abs(lost) <= GOP_SECONDS / 2 + 0.1 * SCALE
    assert abs(returned) <= 0.3 * SCALE
    assert set(viewer.marks.values()) == {0}, "no discontinuity: the encoders are set alike"
    log = headend.log.read_text()
    assert re.search(r"on air.*backup-1.*lost", log)
    assert headend.key.split("_")[1] not in log


@pytest.mark.prove
def test_a_primary_that_hangs_is_replaced_by_the_backup_without_lost_media(
    headend: ServiceProcess, small_source: Path
) -> None:
    primary, backup = commands(headend, small_source)
    with publishing(primary) as first:
        poll(lambda: multivariant(headend.playlist), within=20, what="a playlist")
        with publishing(backup), following(headend.playlist):
            both_on(headend)
            run = addresses(headend.playlist)
            before = newest(headend)
            first.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            try:
                poll(
                    lambda: live_state(headend)[3],
                    within=DETECT_SECONDS + GOP_SECONDS,
                    what="the backup",
                )
                assert time.monotonic() - stopped >= DETECT_SECONDS - 0.2
                # It is connected, but does not count as sending.
                assert live_state(headend) == (True, 1, True, True)
                poll(lambda: newest(headend) >= before + 4, within=12, what="going on")
                assert addresses(headend.playlist) == run
            finally:
                first.send_signal(signal.SIGCONT)
    (switch,) = switches(headend)[:1]
    assert (switch["from"], switch["to"], switch["reason"]) == ("primary", "backup-1", "stalled")
    assert abs(switch["gap_ms"]) / 1000 <= GOP_SECONDS / 2 + 0.3 * SCALE
    # The listed times advance, too: replayed media have the times of their arrival.
    assert all(abs(is_at - due) <= GOP_SECONDS / 2 + 1.0 for is_at, due in clocks(headend))
