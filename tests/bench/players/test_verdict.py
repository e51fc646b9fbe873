"""A player is judged by the clocks that it showed."""

import msgspec
import pytest

from bench.players.verdict import (
    LIVE_HEADINGS,
    VIDEO_HEADINGS,
    LiveCourse,
    SeenPicture,
    judge_live,
    judge_video,
    live_row,
    video_row,
)

COURSE = LiveCourse(opened=1000, lost=9000, away=15_000, back=19_000, end=30_000, known=31_500)


def _shown(*, delay: float, since: float, until: float, step: float = 100.0) -> list[SeenPicture]:
    count = int((until - since) / step)
    return [
        SeenPicture(since + step * number, since + step * number - delay) for number in range(count)
    ]


def test_a_player_that_continues_through_everything() -> None:
    pictures = _shown(delay=2000, since=1500, until=11_000)
    pictures += _shown(delay=2400, since=11_700, until=17_000)
    pictures += _shown(delay=2500, since=21_800, until=32_400)
    playing = judge_live(pictures, COURSE)
    assert (playing.started, playing.latency, playing.after) == (0.5, 2.0, 2.5)
    assert playing.lost_stop == 0.8
    assert playing.slate_wait == pytest.approx(0.1)
    assert playing.missed == pytest.approx(0.2)
    assert (playing.known, playing.stops, playing.skipped) == (1.5, 0, 0.4)
    line = live_row("a", "low", playing, 3, 1)
    assert line == (
        "| a | low | 0.5 s | 2.0 s | 0.8 s | 0.1 s | 2.5 s | 0.2 s | 1.5 s | 0 | 0.0 s | 0.4 s |"
        " 3 | 1 |"
    )
    assert {heading.count("|") for heading in LIVE_HEADINGS.splitlines()} == {line.count("|")}


def test_a_player_that_stops_at_the_loss() -> None:
    pictures = _shown(delay=2000, since=1500, until=10_500)
    pictures += [SeenPicture(10_500 + 100 * number, pictures[-1].drawn) for number in range(100)]
    playing = judge_live(pictures, msgspec.structs.replace(COURSE, known=None))
    assert (playing.lost_stop, playing.slate_wait, playing.after) == (None, None, None)
    assert playing.missed == pytest.approx(21.6)
    line = live_row("a", "low", playing, 0, 0)
    assert "| 2.0 s | stopped | stopped | never | 21.6 s | not |" in line


def test_a_player_that_stands_between() -> None:
    pictures = _shown(delay=2000, since=1500, until=5000)
    pictures += _shown(delay=3000, since=6500, until=17_000)
    playing = judge_live(pictures, COURSE)
    assert (playing.stops, playing.longest) == (1, 1.6)
    assert playing.lost_stop == 0.1


def test_a_player_that_shows_nothing() -> None:
    line = live_row("a", "low", judge_live([], COURSE), 0, 0)
    assert "| a | low | never | never | stopped | stopped | never | all | 1.5 s |" in line


def test_a_video_with_a_seek() -> None:
    pictures = _shown(delay=500, since=1500, until=5000)
    pictures += [
        SeenPicture(each.at, each.drawn + 10_000)
        for each in _shown(delay=500, since=5600, until=10_900)
    ]
    playing = judge_video(pictures, 1000, 5000, 20.0)
    assert (playing.started, playing.sought, playing.stops) == (0.5, 0.6, 0)
    assert playing.missed == pytest.approx(0.7)
    line = video_row("a", playing, 2, seeks=True)
    assert line == "| a | 0.5 s | 0.6 s | 0.7 s | 0 | 0.0 s | 2 |"
    assert {heading.count("|") for heading in VIDEO_HEADINGS.splitlines()} == {line.count("|")}


def test_a_video_without_a_seek() -> None:
    pictures = _shown(delay=0, since=1500, until=21_500)
    playing = judge_video(pictures, 1000, 7000, 20.0)
    assert (playing.sought, playing.missed) == (None, pytest.approx(0.1))
    assert "| 0.5 s | never |" in video_row("a", playing, 0, seeks=True)
    assert "| 0.5 s |  |" in video_row("a", playing, 0, seeks=False)


def test_a_video_that_stops() -> None:
    pictures = _shown(delay=0, since=1500, until=4000)
    pictures += _shown(delay=900, since=4900, until=12_000)
    playing = judge_video(pictures, 1000, 30_000, 20.0)
    assert (playing.stops, playing.longest) == (1, 1.0)


def test_a_video_that_is_not_shown() -> None:
    playing = judge_video([], 1000, 5000, 20.0)
    assert "| a | never | never | all | 0 |" in video_row("a", playing, 0, seeks=True)
