"""systemd holds the sockets while the service restarts: nobody is refused, and the run goes on."""

import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from headend.config.listen_sockets import bind, port_of
from tests.conftest import Proof
from tests.support.e2e.hls_reader import (
    addresses,
    has_segments,
    last_sequence,
    media,
    run_of,
)
from tests.support.e2e.publishers import ffmpeg, persisting
from tests.support.e2e.service import fetch, service
from tests.support.in_thread import in_thread
from tests.support.waiting import SCALE, poll

pytestmark = pytest.mark.e2e


class Requests(msgspec.Struct):
    """What requests of a viewer got, twenty a second: answers, faults, and the longest wait."""

    answered: int = 0
    faults: list[str] = []
    longest: float = 0.0


@contextmanager
def requesting(url: str) -> Generator[Requests]:
    """Send requests during the block, each on a connection of its own."""
    seen, over = Requests(), threading.Event()

    def request() -> None:
        while not over.wait(0.05):
            began = time.monotonic()
            try:
                answer = fetch(url, timeout=30 * SCALE)
            except OSError as error:
                seen.faults.append(repr(error))
            else:
                seen.answered += 1
                if answer.status != 200:
                    seen.faults.append(f"{answer.status} {answer.text}")
            seen.longest = max(seen.longest, time.monotonic() - began)

    with in_thread(request, over.set):
        yield seen


def test_a_restart_refuses_nobody_and_goes_on_with_the_run(
    tmp_path: Path, small_source: Path, proof: Proof
) -> None:
    with ExitStack() as stack:
        http, rtmp = (stack.enter_context(bind(text)) for text in ("127.0.0.1:0", "[::]:0"))
        for held in (http, rtmp):
            held.listen(100)
        own = ("--http", f"127.0.0.1:{port_of(http)}", "--rtmp", f"[::]:{port_of(rtmp)}")
        again = partial(service, tmp_path / "data", arguments=own, sockets=(http, rtmp))
        first = stack.enter_context(again())
        playlist = first.playlist
        url = f"{first.server}/{first.key}"
        stack.enter_context(persisting(ffmpeg(small_source, url, "-stream_loop", "-1")))
        poll(lambda: has_segments(playlist), within=20, what="segments")
        run = run_of(playlist)
        with requesting(playlist) as seen:
            time.sleep(1)
            assert first.stop() == 0
            before = seen.answered
            stack.enter_context(again())
            reached = last_sequence(playlist)
            poll(lambda: last_sequence(playlist) > reached + 1, within=20, what="media")
        assert run_of(playlist) == run
        marks = [
            sum(each.discontinuity for each in media(address).segments)
            for address in addresses(playlist).values()
        ]
    assert seen.answered > before
    assert seen.faults == []
    assert max(marks) <= 1, marks
    proof("a restart under held sockets: requests refused", str(len(seen.faults)), "0")
    proof("a restart under held sockets: longest wait", f"{seen.longest:.1f} s", "a restart")
