"""The notes of a run; notes of older versions can still be read."""

import msgspec
import pytest

from delivery.run.run_state import (
    LiveWindow,
    RunState,
    Step,
    StepSegment,
    decode_state,
    next_init_numbers,
)
from media.hls.playlist import MultivariantPlaylist, Variant
from media.source_mark import ProgrammePlace, SourceMark

# As they were written before segments could be missing.
OLDER = b"""{
  "form": 1,
  "renditions": [{"name": "360p", "width": 640, "height": 360, "rate": 800000}],
  "epochs": 2, "next_sequence": 6, "first": 2, "discontinuities": 0,
  "listed": [
    [4, 1, false, 1769860799000000, {"360p": [900000, 180000, 200000, 60, 2, 1],
                                     "audio": [900000, 180000, 32000, 94, 2, 0]}],
    [5, 1, true, 1769860799000000, {"360p": [1080000, 180000, 200000, 60, 2, 1],
                                    "audio": [1080000, 180000, 32000, 94, 2, 1]}]],
  "left": [
    [3, 0, false, 1769860799000000, {"360p": [720000, 180000, 200000, 60, 2, 0],
                                     "audio": [720000, 180000, 32000, 94, 2, 0]}]],
  "measures": {"360p": {"size": 800000, "ticks": 720000, "peak": 800000, "epoch": 1,
                        "frames": 120, "span": 360000, "recent": [[200000, 180000]]}},
  "announced": {"variants": [{"uri": "a/360p/index.m3u8", "bandwidth": 930000,
                              "frame_rate": 30000}], "sounds": []},
  "written_us": 1769860812000000, "ended": false
}"""


def test_notes_without_gaps_and_a_log_are_read() -> None:
    notes = decode_state(OLDER)
    assert [step.sequence for step in notes.tail] == [3, 4, 5]
    assert [step.gaps for step in notes.tail] == [frozenset()] * 3
    assert next_init_numbers(notes) == {"360p": 2, "audio": 2}
    assert (notes.form, notes.first, notes.next_sequence, notes.epochs) == (2, 2, 6, 2)
    assert (notes.oldest, notes.oldest_inits) == (3, {"360p": 0, "audio": 0})
    # The playlists on disk may name any step, as the old notes do not tell.
    assert notes.oldest_shown == 0


def test_notes_are_read_as_they_were_written() -> None:
    segment = StepSegment(start=0, duration=180_000, size=9, frames=60, parts=2, init=1)
    gap = StepSegment(start=0, duration=180_000, size=0, frames=0, parts=0, init=0, gap=True)
    step = Step(
        sequence=0,
        epoch=0,
        discontinuity=False,
        origin_us=7,
        segments={"360p": gap, "audio": segment},
    )
    notes = RunState(tail=(step,), oldest=1, oldest_inits={"360p": 0}, oldest_shown=3)
    assert decode_state(msgspec.json.encode(notes)) == notes


class _FormerSegment(msgspec.Struct, frozen=True, array_like=True):
    """A segment as the version before borrowed ones reads it."""

    start: int
    duration: int
    size: int
    frames: int
    parts: int
    init: int
    gap: bool = False


def test_a_borrowed_segment_is_one_with_media_for_an_older_version_too() -> None:
    borrowed = StepSegment(0, 180_000, 9, 60, 2, 1, borrowed=True)
    assert not borrowed.is_own
    former = msgspec.json.decode(msgspec.json.encode(borrowed), type=_FormerSegment)
    assert former == _FormerSegment(0, 180_000, 9, 60, 2, 1)
    assert msgspec.json.decode(msgspec.json.encode(former), type=StepSegment).is_own


@pytest.mark.parametrize("text", [b"", b"[]", b'{"form": 2, "tail": 1}', b'{"listed": ['])
def test_what_is_no_state_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_state(text)


def steps_from(first: int, count: int) -> tuple[Step, ...]:
    one = step_of(top=True)
    return tuple(msgspec.structs.replace(one, sequence=first + index) for index in range(count))


@pytest.mark.parametrize(
    ("first", "count", "page"),
    [
        pytest.param(0, 31, None, id="not yet"),
        pytest.param(0, 32, (0, 0, 16), id="two pages of steps"),
        pytest.param(16, 40, (1, 16, 32), id="more were waiting"),
        pytest.param(21, 32, (1, 21, 32), id="a run from before there was a log"),
    ],
)
def test_pages_end_at_the_same_numbers(
    first: int, count: int, page: tuple[int, int, int] | None
) -> None:
    due = RunState(tail=steps_from(first, count)).next_page()
    if page is None:
        assert due is None
        return
    assert due is not None
    assert (due[0], due[1].steps[0].sequence, due[1].steps[-1].sequence + 1) == page


@pytest.mark.parametrize(
    ("dvr", "listed", "kept"),
    [
        pytest.param(0.0, 30.0, 60.0, id="not set"),
        pytest.param(20.0, 30.0, 60.0, id="shorter than the window of all runs"),
        pytest.param(50.0, 50.0, 60.0, id="within what is kept"),
        # A segment and the longest playlist that named it (6.2.2).
        pytest.param(14_400.0, 14_400.0, 14_404.0, id="four hours"),
    ],
)
def test_a_window_reaches_back_as_far_as_viewers_may_go(
    dvr: float, listed: float, kept: float
) -> None:
    window = LiveWindow(listed_seconds=30.0, kept_seconds=60.0)
    expected = LiveWindow(listed_seconds=listed, kept_seconds=kept)
    assert window.reaching_back(dvr) == expected


def step_of(**there: bool) -> Step:
    cuts = {
        name: StepSegment(start=0, duration=1, size=1, frames=1, parts=1, init=0, gap=not is_there)
        for name, is_there in there.items()
    }
    return Step(sequence=0, epoch=0, discontinuity=False, origin_us=0, segments=cuts)


def test_a_step_can_be_played_with_one_rung_or_with_the_sound_that_is_all_there_is() -> None:
    assert step_of(top=True, low=False, audio=False).playable
    assert not step_of(top=False, low=False, audio=True).playable
    assert step_of(audio=True).playable
    assert not step_of(audio=False).playable


def test_codecs_are_those_that_were_announced_to_viewers() -> None:
    announced = MultivariantPlaylist(
        variants=(
            Variant(uri="r/720p/index.m3u8", bandwidth=1, codecs=("avc1.1", "mp4a"), audio="a"),
            Variant(uri="r/360p/index.m3u8", bandwidth=1, codecs=("avc1.2", "mp4a"), audio="a"),
        )
    )
    codecs = RunState(announced=announced).announced_codecs
    assert codecs == {"720p": "avc1.1", "360p": "avc1.2", "audio": "mp4a"}
    alone = MultivariantPlaylist(
        variants=(Variant(uri="r/audio/index.m3u8", bandwidth=1, codecs=("mp4a",)),)
    )
    assert RunState(announced=alone).announced_codecs == {"audio": "mp4a"}
    assert RunState().announced_codecs == {}


PLACE = ProgrammePlace(offset=90_000, marks=(SourceMark(pts=180_000, digest=7),))


def with_ends(sequence: int, **ends: int | None) -> Step:
    """Return a step of renditions that end at these times, or have a gap."""
    segments = {
        name: StepSegment(end or 0, 0, 9, 60, 2, 0, gap=end is None) for name, end in ends.items()
    }
    return Step(sequence=sequence, epoch=0, discontinuity=False, origin_us=7, segments=segments)


def test_a_run_was_left_where_the_pictures_end_that_every_rung_has() -> None:
    state = decode_state(msgspec.json.encode(RunState(place=PLACE)))
    first = with_ends(0, top=200, low=200, audio=190)
    assert state.left_at([first]) == (200, PLACE)
    assert state.left_at([first, with_ends(1, top=390, low=380, audio=250)]) == (380, PLACE)
    # A rung may not have begun what another one has; one that is shed has gaps.
    second, third = with_ends(1, top=390, low=None, audio=400), with_ends(2, top=590, low=None)
    assert state.left_at([first, second]) == (200, PLACE)
    assert state.left_at([first, second, third]) == (590, PLACE)
    assert state.left_at([with_ends(0, audio=400)]) is None
    assert RunState().left_at([first]) is None
