"""The timelines of a run: its renditions begin and shrink together, and which parts may leave."""

import pytest

from delivery.run.run_timelines import RunTimelines
from delivery.run.step_builder import PublicationError
from media.hls.playlist import TARGET_SECONDS
from media.ticks import VIDEO_SCALE
from tests.support.media.timelines import PART, SEGMENT, extended, part

NAMES = ("1080p", "audio")
TARGET = TARGET_SECONDS * VIDEO_SCALE
LISTED = 10 * SEGMENT


def timelines(segments: int = 0) -> RunTimelines:
    made = RunTimelines(PART, LISTED)
    made.prepare(NAMES, PART, sequence=7)
    for name in NAMES:
        made[name] = extended(made[name], segments)
    return made


def test_all_renditions_begin_with_the_same_step() -> None:
    run = timelines()
    assert tuple(run) == NAMES
    assert run.beginning == (7, 0)
    assert not run.end()
    assert [timeline.sequence for timeline in run.values()] == [7, 7]


def test_renditions_change_until_something_is_listed() -> None:
    run = timelines()
    run.prepare(("720p", "audio"), PART, sequence=9)
    assert {name: timeline.sequence for name, timeline in run.items()} == {"720p": 9, "audio": 9}
    run["audio"] = extended(run["audio"], 1)
    run.prepare(("720p", "audio"), PART, sequence=10)
    with pytest.raises(PublicationError, match="keeps its renditions"):
        run.prepare(NAMES, PART, sequence=10)


def test_the_oldest_steps_leave_once_every_rendition_can_spare_them() -> None:
    run = timelines(14)
    run[NAMES[0]] = extended(run[NAMES[0]], 20)
    assert run.drop_surplus(until=0)
    assert run.beginning == (11, 0)
    assert [timeline.count for timeline in run.values()] == [30, 10]
    assert not run.drop_surplus(until=0)


def test_steps_that_had_left_do_not_come_back() -> None:
    run = timelines(12)
    assert run.drop_surplus(until=0, first=12)
    assert run.beginning == (12, 0)
    # As many as gaps at the end replace have left, too.
    run = timelines(12)
    assert run.drop_surplus(until=0, lost=3 * SEGMENT)
    assert run.beginning == (12, 0)


def test_parts_that_are_not_listed_any_more_are_due_after_a_target_duration() -> None:
    run = timelines(1)
    before = run["audio"]
    run.replace("audio", extended(before, 12), until=3 * SEGMENT)
    gone = {("audio", part(7, index).uri) for index in range(4)}
    assert list(run.due_parts(3 * SEGMENT + TARGET - 1)) == []
    (parts,) = run.due_parts(3 * SEGMENT + TARGET)
    assert set(parts) == gone
    assert list(run.due_parts(100 * TARGET)) == []


def test_parts_that_are_listed_still_are_never_due() -> None:
    run = timelines(1)
    run.replace("audio", extended(run["audio"], 1), until=0)
    assert list(run.due_parts(100 * TARGET)) == []


def test_all_renditions_announce_the_longest_part_target_that_one_needs() -> None:
    run = timelines(1)
    run.prepare(NAMES, 2 * PART, sequence=8)
    assert [timeline.part_target for timeline in run.values()] == [2 * PART, 2 * PART]
    longer = run[NAMES[0]].open("init-0.mp4").with_part(part(8, 0, duration=2 * PART))
    run[NAMES[0]] = longer
    run.prepare(NAMES, PART, sequence=8)
    assert run.part_target == PART
    assert [timeline.part_target for timeline in run.values()] == [2 * PART, 2 * PART]
    assert run.with_common_target("audio", run["audio"]).part_target == 2 * PART
    run[NAMES[0]] = longer.without_open()
    assert run.with_common_target("audio", run["audio"]).part_target == PART


def test_the_end_is_in_all_playlists() -> None:
    run = timelines(2)
    assert run.end()
    assert all(timeline.hint is None for timeline in run.values())
    assert all(timeline.newest is not None for timeline in run.values())
