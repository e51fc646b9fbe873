"""Engines and services killed at any moment: the owner's record and events are true and complete.

The truth is determined without the API: which encoders and engines run, whether the playlists
advance, whether the newest segment is silent.
"""

import itertools
import math
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import av
import pytest

from media.hls import m3u8
from media.hls.playlist import MediaPlaylist
from tests.conftest import Proof
from tests.support.e2e import clock_video
from tests.support.e2e.encoder_pair import EncoderPair, Json, pair
from tests.support.e2e.hls_reader import multivariant
from tests.support.e2e.publishers import persisting
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.e2e.slow_process import children_of
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_SEED = 20_27
_FEW = pytest.param(3, id="a few")
_ALL = pytest.param(50, id="fifty", marks=pytest.mark.prove)
_WINDOW = 4.0  # seconds that a run waits for an encoder
_ENVIRONMENT = {
    "HEADEND_LIVE__RECONNECT_SECONDS": str(_WINDOW),
    "HEADEND_LIVE__GOODBYE_SECONDS": "1",
    "HEADEND_FAILOVER__RETURN_SECONDS": "1",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}
# The slots whose encoders run; the backup has no sound, so the media show which slot is on air.
_STATES: tuple[frozenset[int], ...] = (
    frozenset({0, 1}),
    frozenset({1}),
    frozenset({0}),
    frozenset(),
)
_BACKUP_ALONE = _STATES[1]
_ENGINE_DEATHS = 3  # within a minute; five end the run by design


class ReconnectingEncoders:
    """Encoders that reconnect by themselves while they are wanted."""

    def __init__(self, stream: EncoderPair) -> None:
        self._commands = {
            0: clock_video.encoder(stream.url(0)),
            1: clock_video.encoder(stream.url(1), channels=0),
        }
        self._running: dict[int, ExitStack] = {}

    def want(self, slots: frozenset[int]) -> None:
        """Run the encoders of these slots, and no others."""
        for slot in set(self._running) - slots:
            self._running.pop(slot).close()
        for slot in slots - set(self._running):
            stack = self._running[slot] = ExitStack()
            stack.enter_context(persisting(self._commands[slot]))


def engines(headend: ServiceProcess) -> list[int]:
    """Return the service's engines for live streams."""
    pids: list[int] = []
    for pid in children_of(headend.process.pid):
        command = Path(f"/proc/{pid}/cmdline")
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"transcode.engine" in words and b"live" in words:
            pids.append(pid)
    return pids


def playlists(stream: EncoderPair) -> dict[str, MediaPlaylist]:
    """Return the run's newest playlists by address; empty while there is none."""
    by_address: dict[str, MediaPlaylist] = {}
    if (top := multivariant(stream.playlist)) is None:
        return by_address
    for sound in top.sounds:
        address = stream.playlist.rsplit("/", 1)[0] + "/" + sound.uri
        answer = fetch(address)
        parsed = m3u8.parse(answer.text) if answer.status == 200 else None
        if isinstance(parsed, MediaPlaylist):
            by_address[address] = parsed
    return by_address


def new_segments_come(stream: EncoderPair, within: float = 6.0) -> bool:
    """Return whether new segments are listed within some seconds."""

    def ends() -> set[tuple[str, int, bool]]:
        return {
            (address, each.sequence + len(each.segments), each.ended)
            for address, each in playlists(stream).items()
        }

    first, deadline = ends(), time.monotonic() + within * SCALE
    while time.monotonic() < deadline:
        now = ends()
        if all(ended for *_, ended in now):
            return False
        if now != first:
            return True
        time.sleep(0.2)
    return False


def is_silent(stream: EncoderPair, folder: Path) -> bool:
    """Return whether the newest segment's sound is silent."""
    ((address, playlist),) = playlists(stream).items()
    newest = playlist.segments[-1]
    assert newest.map_uri is not None
    base = address.rsplit("/", 1)[0] + "/"
    path = folder / "newest.mp4"
    path.write_bytes(fetch(base + newest.map_uri).body + fetch(base + newest.uri).body)
    power, count = 0.0, 0
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            levels = memoryview(bytes(frame.planes[0])).cast("f").tolist()
            power += math.fsum(level * level for level in levels)
            count += len(levels)
    return math.sqrt(power / max(count, 1)) < 0.001


def record(stream: EncoderPair) -> Json:
    """Return the compared flags; pauses to stay within the rate limit."""
    time.sleep(0.1)
    stream_record = stream.record()
    (backup,) = stream_record["backups"]
    names = ("live", "processing", "paused", "receiving_count", "published", "no_audio_stream")
    return {
        **{name: stream_record[name] for name in names},
        "backup": (backup["live"], backup["publish"]),
    }


def expected(slots: frozenset[int], *, published: bool) -> Json:
    """Return the flags for these encoders once all has settled."""
    backup_alone = slots == _BACKUP_ALONE
    return {
        "live": bool(slots),
        "processing": bool(slots),
        "paused": False,
        "receiving_count": len(slots),
        "published": published,
        "no_audio_stream": backup_alone,
        "backup": (1 in slots, backup_alone),
    }


def state_from_events(events: list[Json]) -> Json:
    """Return the stream's state according to all of its owner's events."""
    live, on_air, sending = False, None, set[str]()
    for event in events:
        facts = event["facts"]
        match event["type"]:
            case "live":
                live = True
            case "off air":
                live, on_air = False, None
            case "switched":
                on_air = facts["to"]
            case "slate":
                on_air = None
            case "back on air":
                on_air = facts["slot"]
            case "encoder on":
                assert facts["slot"] not in sending, event
                sending.add(facts["slot"])
                assert facts["receiving_count"] == len(sending), event
            case "encoder sending":
                sending.add(facts["slot"])
                assert facts["receiving_count"] == len(sending), event
            case "encoder off" | "encoder silent":
                sending.discard(facts["slot"])
                assert facts["receiving_count"] == len(sending), event
            case _:
                pass
    return {"live": live, "on_air": on_air, "sending": sending}


def check_state(
    headend: ServiceProcess, stream: EncoderPair, slots: frozenset[int], folder: Path
) -> None:
    """Check that the record, the events and the actual processes and media agree."""
    flags = expected(slots, published=True)
    poll(lambda: record(stream) == flags, within=_WINDOW + 12, what=f"{flags}")
    assert new_segments_come(stream) == bool(slots), slots
    assert len(engines(headend)) == bool(slots), slots
    if slots:
        poll(
            lambda: is_silent(stream, folder) == (slots == _BACKUP_ALONE),
            within=10,
            what="its sound",
        )
    assert record(stream) == flags, "it stays so"
    events = stream.listed_events()
    assert [each["number"] for each in events] == list(range(1, len(events) + 1))
    state = state_from_events(events)
    assert state["live"] == flags["live"]
    assert len(state["sending"]) == flags["receiving_count"]
    if state["on_air"] is not None:
        assert (state["on_air"] == "backup-1") == flags["backup"][1], events[-5:]


def victims(moments: random.Random) -> Iterator[str]:
    """Yield what to kill next, an engine or the service, such that runs survive."""
    deaths: list[float] = []
    while True:
        now = time.monotonic()
        deaths = [death for death in deaths if death > now - 60]
        victim = moments.choice(["engine", "service"])
        if victim == "engine" and len(deaths) < _ENGINE_DEATHS:
            deaths.append(now)
            yield "engine"
        else:
            yield "service"


@pytest.mark.parametrize("deaths", [_FEW, _ALL])
def test_flags_and_events_are_true_after_any_death(
    tmp_path: Path, deaths: int, proof: Proof
) -> None:
    moments = random.Random(_SEED)
    folder = tmp_path / "data"
    states = itertools.cycle(moments.sample(_STATES, len(_STATES)))
    plan = [next(states) for _ in range(deaths)]
    with ExitStack() as world:
        headend = world.enter_context(service(folder, environment=_ENVIRONMENT, own_engines=True))
        ports = (
            *("--http", f"127.0.0.1:{headend.port_of(headend.http + '/')}"),
            *("--rtmp", f"[::]:{headend.port_of(headend.server)}", "--rtmps", ""),
        )
        stream = pair(headend)
        encoders = ReconnectingEncoders(stream)
        world.callback(encoders.want, frozenset())
        encoders.want(_STATES[0])
        check_state(headend, stream, _STATES[0], tmp_path)
        for slots, victim in zip(plan, victims(moments), strict=False):
            encoders.want(slots)
            time.sleep(moments.uniform(0.0, 2.5))
            if victim == "service":
                headend.process.kill()
                headend.process.wait()
                headend = world.enter_context(
                    service(folder, environment=_ENVIRONMENT, arguments=ports, own_engines=True)
                )
            else:
                for pid in engines(headend):
                    os.kill(pid, signal.SIGKILL)
            check_state(headend, stream, slots, tmp_path)
    proof(
        f"{deaths} engines and services killed: flags or events that were not true",
        "0",
        "0",
    )
