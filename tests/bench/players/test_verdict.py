"""A player is judged by the clocks that it showed."""

from bench.players.verdict import HEADINGS, SeenPicture, judge, last_new, row


def _shown(*, delay: float, since: float, until: float, step: float = 100.0) -> list[SeenPicture]:
    count = int((until - since) / step)
    return [
        SeenPicture(since + step * number, since + step * number - delay) for number in range(count)
    ]


def test_a_player_that_continues_across_the_switch() -> None:
    pictures = _shown(delay=2000, since=1500, until=10_000)
    pictures += _shown(delay=1000, since=10_700, until=20_000)
    judgement = judge(pictures, 1000, 9000, 20_000)
    assert judgement.started == 0.5
    assert judgement.before == 2.0
    assert judgement.after == 1.0
    assert judgement.across
    assert (judgement.stops, judgement.longest, judgement.skipped) == (1, 0.8, 1.8)
    line = row("a", "low", judgement, 3, 1)
    assert line == "| a | low | 0.5 s | 2.0 s | 1.0 s |  | 1 | 0.8 s | 1.8 s | 3 | 1 |"
    assert line.count("|") == HEADINGS.splitlines()[0].count("|")
    assert HEADINGS.splitlines()[1].count("|") == line.count("|")


def test_a_player_that_stops_at_the_switch() -> None:
    pictures = _shown(delay=2000, since=1500, until=10_000)
    pictures += [SeenPicture(10_000 + 100 * number, pictures[-1].drawn) for number in range(100)]
    judgement = judge(pictures, 1000, 9000, 20_000)
    assert not judgement.across
    assert (judgement.stops, judgement.longest) == (1, 10.1)
    assert "| 2.0 s | stopped |  | 1 |" in row("a", "low", judgement, 0, 0)


def test_a_player_that_shows_nothing() -> None:
    judgement = judge([], 1000, 9000, 20_000)
    assert judgement.started is None
    assert "| a | low | never | never | stopped |  |" in row("a", "low", judgement, 0, 0)


def test_a_video_has_neither_latency_nor_switch() -> None:
    judgement = judge(_shown(delay=0, since=1500, until=5000), 1000, 3000, 5000)
    assert row("a", "video", judgement, 0, 0).startswith("| a | video | 0.5 s |  |  | 3.4 s | 0 |")


def test_a_video_ends_when_its_last_picture_comes_and_not_when_it_goes() -> None:
    pictures = _shown(delay=0, since=1500, until=5000)
    pictures += [SeenPicture(5000 + 100 * number, pictures[-1].drawn) for number in range(100)]
    assert last_new(pictures) == 4900
    assert judge(pictures, 1000, 3000, 4900).stops == 0
    assert last_new([]) is None
