"""Parts of a file whose clock begins again: each follows the one before, in all of its tracks."""

from collections import Counter

from media.ticks import VIDEO_SCALE as SECOND
from transcode.engine.input.joined_clock import ClockScan

STEP = SECOND // 25
PICTURE, SOUND = 0, 1

Packet = tuple[int, int]
"""Track and time of decoding."""


def at(first: float, seconds: float, step: int = STEP) -> list[int]:
    begin = round(first * SECOND)
    return list(range(begin, begin + round(seconds * SECOND), step))


def pictures(first: float, seconds: float, step: int = STEP) -> list[Packet]:
    return [(PICTURE, time) for time in at(first, seconds, step)]


def sound(first: float, seconds: float) -> list[Packet]:
    return [(SOUND, time) for time in at(first, seconds)]


def film(first: float, seconds: float) -> list[Packet]:
    """Pictures and sound in turn."""
    pairs = zip(pictures(first, seconds), sound(first, seconds), strict=True)
    return [packet for pair in pairs for packet in pair]


def joined(
    *packets: Packet, delay: int = 0, keys: tuple[int, ...] = (), one_clock: bool = False
) -> list[int]:
    """Return the packets' times on the joined clock; pictures are shown `delay` later."""
    scan = ClockScan(PICTURE, one_clock=one_clock)
    for number, (track, time) in enumerate(packets):
        scan.add(track, (time, time + delay), key=number in keys)
    joins, counts, times = scan.joins(), Counter[int](), list[int]()
    for track, time in packets:
        offset = 0
        for join in joins.get(track, ()):
            offset = join.offset if join.number <= counts[track] else offset
        counts[track] += 1
        times.append(time + offset)
    return times


def test_parts_are_joined_for_all_tracks_alike() -> None:
    """The sound of the second part comes before its picture, by as much as in the first part."""
    part = [*sound(0, 4), *pictures(0.5, 4)]
    parts = joined(*part, *part)
    again = parts[len(part)]
    assert again == 4 * SECOND
    assert [time - again for time in parts[len(part) :]] == parts[: len(part)]


def test_parts_as_short_as_segments_are_joined_where_decode_times_are_stated() -> None:
    packets = [packet for _ in range(5) for packet in pictures(1.4, 1)]
    assert joined(*packets) == at(1.4, 5)
    assert joined(*packets, one_clock=True) == 5 * at(1.4, 1)


def test_parts_with_and_without_b_frames_are_shown_one_after_the_other() -> None:
    scan = ClockScan(PICTURE, one_clock=False)
    for delay in (2 * STEP, 0, 2 * STEP):
        for time in at(0, 4):
            scan.add(PICTURE, (time - delay, time))
    joins = scan.joins()[PICTURE]
    assert [join.offset for join in joins] == [0, 4 * SECOND, 8 * SECOND]


def test_the_sound_of_a_part_may_come_after_all_of_its_pictures() -> None:
    parts = [[*pictures(0, seconds), *sound(0, seconds)] for seconds in (3, 1, 2)]
    times = joined(*(packet for part in parts for packet in part))
    assert times == [*at(0, 3), *at(0, 3), *at(3, 1), *at(3, 1), *at(4, 2), *at(4, 2)]


def test_a_track_that_a_part_lacks_goes_on_with_the_next_part() -> None:
    both, one = film(0, 4), pictures(0, 4)
    parts = joined(*both, *one, *both)
    assert parts[-len(both) :] == [time + 8 * SECOND for _, time in both]
    assert joined(*one, *both)[-len(both) :] == [time + 4 * SECOND for _, time in both]


def test_sound_that_comes_before_the_first_picture_of_its_part_belongs_to_that_part() -> None:
    """A demuxer returns the last picture of a part once the first one of the next has begun."""
    silent, loud = pictures(0, 4), film(0, 4)
    early = [*silent[:-1], *sound(0, 0.2), silent[-1], *pictures(0, 4), *sound(0.2, 3.8)]
    heard = [time for (track, _), time in zip(early, joined(*early), strict=True) if track == SOUND]
    assert heard == at(4, 4)
    parts = [*loud, *early]
    heard = [time for (track, _), time in zip(parts, joined(*parts), strict=True) if track == SOUND]
    assert heard == at(0, 4) + at(8, 4)


def test_sound_that_begins_some_pictures_late_in_short_parts_stays_beside_them() -> None:
    part = [*pictures(0, 0.4), *film(0.4, 0.6)]
    late = [*pictures(0, 0.4), *sound(0, 0.4), *film(0.4, 0.6)]
    assert joined(*part, *part)[-len(part) :] == [time + SECOND for _, time in part]
    assert joined(*late, *late)[-len(late) :] == [time + SECOND for _, time in late]


def test_a_slide_of_which_the_sound_is_over_when_it_comes_is_shown_for_its_time() -> None:
    *slides, last = pictures(0, 40, 10 * SECOND)
    show = [slides[0], *sound(0, 35), *slides[1:], *sound(35, 5), last]
    parts = joined(*show, *film(1, 4))
    assert parts[: len(show)] == [time for _, time in show]
    assert parts[len(show) :] == [time + 39 * SECOND for _, time in film(1, 4)]


def test_a_part_begins_when_the_sound_of_the_part_before_is_over() -> None:
    parts = joined(*film(0, 2), *sound(2, 7), *film(0, 2))
    assert parts[-100:] == [time + 9 * SECOND for _, time in film(0, 2)]


def test_sound_without_a_picture_is_a_part_of_its_own_at_the_end_and_not_at_the_beginning() -> None:
    *shown, last, heard = film(0, 4)
    parts = joined(*shown, heard, *sound(0, 2), last)
    assert parts[-51:-1] == at(4, 2)
    alone = joined(*sound(0, 9), *film(0, 4))
    assert alone[-200:] == [time for _, time in film(0, 4)]
    assert max(alone[: 9 * 25]) < 0


def test_a_keyframe_that_is_shown_before_earlier_pictures_begins_a_part_that_overlaps_them() -> (
    None
):
    first, second = film(0, 4), film(4 - 0.08, 4)
    parts = joined(*first, *second, delay=STEP, keys=(len(first),))
    assert parts == [time for _, time in film(0, 8)]
    assert joined(*first, *second, delay=STEP) == [time for _, time in (*first, *second)]


def test_sound_that_goes_on_by_its_own_clock_is_not_moved() -> None:
    shown = [*pictures(0, 8), *pictures(0, 8)]
    packets = [packet for pair in zip(shown, sound(0, 16), strict=True) for packet in pair]
    assert joined(*packets) == [time for _, time in film(0, 16)]


def test_sound_that_is_moved_by_damage_stays_in_its_part() -> None:
    damaged = [*film(0, 4), *sound(1, 1), *film(4, 4)]
    assert joined(*damaged) == [time for _, time in damaged]


def test_a_stray_that_went_back_does_not_move_what_follows() -> None:
    times = joined(*pictures(0, 4), *pictures(0, 2), *pictures(6, 4))
    assert times[-100:] == at(6, 4)
    assert times == at(0, 10)


def test_a_part_is_no_stray_if_what_follows_would_overlap_it() -> None:
    times = joined(*pictures(0, 4), *pictures(0, 2), *pictures(5, 4))
    assert times == at(0, 10)
