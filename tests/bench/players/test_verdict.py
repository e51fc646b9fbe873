"""What a player did is told by the clocks that it showed."""

from bench.players.verdict import HEADINGS, SeenPicture, judge, last_new, row


def _shown(*, delay: float, since: float, until: float, step: float = 100.0) -> list[SeenPicture]:
    count = int((until - since) / step)
    return [
        SeenPicture(since + step * number, since + step * number - delay) for number in range(count)
    ]


def test_a_player_that_goes_on_across_the_switch() -> None:
    shown = _shown(delay=2000, since=1500, until=10_000)
    shown += _shown(delay=1000, since=10_700, until=20_000)
    found = judge(shown, 1000, 9000, 20_000)
    assert found.started == 0.5
    assert found.before == 2.0
    assert found.after == 1.0
    assert found.across
    assert (found.stops, found.longest, found.skipped) == (1, 0.8, 1.8)
    line = row("a", "low", found, 3, 1)
    assert line == "| a | low | 0.5 s | 2.0 s | 1.0 s |  | 1 | 0.8 s | 1.8 s | 3 | 1 |"
    assert line.count("|") == HEADINGS.splitlines()[0].count("|")
    assert HEADINGS.splitlines()[1].count("|") == line.count("|")


def test_a_player_that_stops_at_the_switch() -> None:
    shown = _shown(delay=2000, since=1500, until=10_000)
    shown += [SeenPicture(10_000 + 100 * number, shown[-1].drawn) for number in range(100)]
    found = judge(shown, 1000, 9000, 20_000)
    assert not found.across
    assert (found.stops, found.longest) == (1, 10.1)
    assert "| 2.0 s | stopped |  | 1 |" in row("a", "low", found, 0, 0)


def test_a_player_that_shows_nothing() -> None:
    found = judge([], 1000, 9000, 20_000)
    assert found.started is None
    assert "| a | low | never | never | stopped |  |" in row("a", "low", found, 0, 0)


def test_a_video_has_neither_latency_nor_switch() -> None:
    found = judge(_shown(delay=0, since=1500, until=5000), 1000, 3000, 5000)
    assert row("a", "video", found, 0, 0).startswith("| a | video | 0.5 s |  |  | 3.4 s | 0 |")


def test_a_video_ends_when_its_last_picture_comes_and_not_when_it_goes() -> None:
    shown = _shown(delay=0, since=1500, until=5000)
    shown += [SeenPicture(5000 + 100 * number, shown[-1].drawn) for number in range(100)]
    assert last_new(shown) == 4900
    assert judge(shown, 1000, 3000, 4900).stops == 0
    assert last_new([]) is None
