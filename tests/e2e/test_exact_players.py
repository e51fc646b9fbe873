"""How long players stall at switches between encoders that are apart.

Our page, hls.js and Shaka Player, the latter two as they are, play in Chromium while the primary
fails in every way and returns. Nothing is required of the other players.
"""

import random
from bisect import bisect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from bench.players.pages import player_pages
from tests.conftest import Proof
from tests.e2e.test_exact_failover import ALL_CAUSES, LOW, NORMAL, ApartEncoders, FailingWorld
from tests.support.browser import Chromium, Viewer
from tests.support.e2e.failing_primary import RETURN_SECONDS, Switch
from tests.support.e2e.service import SCALE, ServiceProcess, service

pytestmark = pytest.mark.e2e

_SEED = 20_26
_BEHIND = (0.0, 0.3, -0.3, 1.0, -1.0, 3.0)
# Streams at once, and the seconds of the programme that each may take.
_AT_ONCE = 2
_SECONDS = 300.0
# The bounds of the table, in seconds; a wait below the first is none.
_BOUNDS = (0.05, 0.25, 0.5, 1.0, 2.0)
_HEADINGS = ("none", "< 0.25 s", "< 0.5 s", "< 1 s", "< 2 s", "longer")
_POSITION = "() => (window.headend?.video ?? document.querySelector('video')).currentTime"
_PLAYS = "() => (window.headend?.video ?? document.querySelector('video'))?.currentTime > 0"


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """How long a player waited from one switch to the next one, and how far it jumped ahead."""

    latency: str
    behind: float
    player: str
    cause: str
    reason: str
    waited: float
    skipped: float


@pytest.fixture(scope="module", params=["low", "normal"])
def latency(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def running(latency: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    environment = {
        "HEADEND_LIVE__LATENCY": latency,
        "HEADEND_LIVE__RECONNECT_SECONDS": "30",
        "HEADEND_FAILOVER__RETURN_SECONDS": str(RETURN_SECONDS),
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(tmp_path_factory.mktemp("players") / "data", environment=environment) as headend:
        yield headend


@pytest.fixture(scope="module")
def pages() -> Iterator[dict[str, str]]:
    with player_pages() as found:
        yield found


@pytest.mark.prove
def test_players_hardly_stall_while_encoders_that_are_apart_fail(
    running: ServiceProcess,
    latency: str,
    browser: Chromium,
    pages: dict[str, str],
    proof: Proof,
    tmp_path: Path,
) -> None:
    watched = [
        WatchedWorld(running, browser, pages, latency, behind, tmp_path / f"{number}")
        for number, behind in enumerate(_BEHIND)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        stalls = [each for found in pool.map(WatchedWorld.stalls, watched) for each in found]
    for player in ("page", "hls", "shaka"):
        for behind in _BEHIND:
            chosen = [each for each in stalls if (each.player, each.behind) == (player, behind)]
            proof(f"{latency}, {player}, backup {behind:+g} s behind", _distribution(chosen), "")
        for reason in ("lost", "stalled", "drill", "returned"):
            chosen = [each for each in stalls if (each.player, each.reason) == (player, reason)]
            proof(f"{latency}, {player}, {reason}", _distribution(chosen), "")
    if latency == "normal":
        ours = [each for each in stalls if each.player == "page"]
        assert max(each.waited for each in ours) < _BOUNDS[1] * SCALE


def _distribution(stalls: list[Stall]) -> str:
    """Return how many switches made a player wait for how long, and the longest one."""
    counts = [0] * len(_HEADINGS)
    for each in stalls:
        counts[bisect(_BOUNDS, each.waited)] += 1
    shown = ", ".join(f"{name}: {n}" for name, n in zip(_HEADINGS, counts, strict=True) if n)
    worst = max(stalls, key=lambda each: each.waited)
    return f"{shown}; longest {worst.waited:.2f} s ({worst.cause})"


class WatchedWorld:
    """A stream whose encoders fail, and the players that watch it."""

    def __init__(
        self,
        headend: ServiceProcess,
        browser: Chromium,
        pages: dict[str, str],
        latency: str,
        behind: float,
        folder: Path,
    ) -> None:
        folder.mkdir()
        encoders = ApartEncoders(behind=behind)
        delays = LOW if latency == "low" else NORMAL
        self._world = FailingWorld(headend, encoders, delays, folder, seconds=_SECONDS)
        self._behind = behind
        self._latency = latency
        self._browser = browser
        playlist = self._world.stream.playlist
        self._addresses = {
            "page": self._world.stream.watch,
            **{name: f"{pages[name]}#{playlist}" for name in ("hls", "shaka")},
        }
        self._viewers: dict[str, Viewer] = {}

    def stalls(self) -> list[Stall]:
        """Let the primary fail by each cause and return, and tell how long players waited."""
        dice = random.Random(f"{_SEED} {self._behind}")
        self._world.run(dice.sample(ALL_CAUSES, len(ALL_CAUSES)), dice, self._open)
        found: list[Stall] = []
        for player, viewer in self._viewers.items():
            found += self._stalls_of(player, viewer)
            viewer.close()
        return found

    def _open(self) -> None:
        """Open the players, and record their waits once they have played for a while."""
        for player, address in self._addresses.items():
            self._viewers[player] = self._browser.open(address)
        for player, viewer in self._viewers.items():
            viewer.wait_for_page(_PLAYS, 30, f"{player} plays")
        began = self._positions()
        self._viewers["page"].wait_until_playing(20, span=6)
        assert all(now > began[player] + 3 for player, now in self._positions().items())
        for viewer in self._viewers.values():
            viewer.record_waits()

    def _positions(self) -> dict[str, float]:
        return {
            player: msgspec.convert(viewer.evaluate(_POSITION), float, strict=False)
            for player, viewer in self._viewers.items()
        }

    def _stalls_of(self, player: str, viewer: Viewer) -> list[Stall]:
        switches = self._world.switches
        waits = viewer.waits()
        found: list[Stall] = []
        ends = [*(each.began for each in switches), float("inf")][1:]
        for switch, end in zip(switches, ends, strict=True):
            own = [each.seconds for each in waits if switch.began <= each.at < end]
            found.append(self._stall(player, switch, own))
        return found

    def _stall(self, player: str, switch: Switch, waits: list[float]) -> Stall:
        return Stall(
            latency=self._latency,
            behind=self._behind,
            player=player,
            cause=switch.cause,
            reason=switch.facts["reason"],
            waited=sum(each for each in waits if each > 0),
            skipped=-sum(each for each in waits if each < 0),
        )
