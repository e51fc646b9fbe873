"""The totals and playlists of a record: values alone."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.recording.pages import (
    RecordedPlaylists,
    RecordingPage,
    RecordingTotals,
    fit_step,
)
from delivery.run.run_state import Step, StepSegment
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from media.ladder import AUDIO_RENDITION, Rendition
from tests.support.storage.engine_reports import CODECS, LOW, NOON_US, ORIGIN, TOP, TWO

NAMES = (TOP.name, LOW.name, AUDIO_RENDITION)
RUNGS = (TOP, LOW)


def step(
    sequence: int,
    *,
    epoch: int = 0,
    discontinuity: bool = False,
    gaps: tuple[str, ...] = (),
    borrowed: tuple[str, ...] = (),
    duration: int = TWO,
    init: int = 0,
) -> Step:
    return Step(
        sequence=sequence,
        epoch=epoch,
        discontinuity=discontinuity,
        origin_us=NOON_US,
        segments={
            name: StepSegment(
                start=ORIGIN + sequence * TWO,
                duration=duration,
                size=0 if name in gaps else 1000,
                frames=0 if name in gaps else 60,
                parts=0,
                init=init,
                gap=name in gaps,
                borrowed=name in borrowed,
            )
            for name in NAMES
        },
    )


def tallied(*steps: Step, renditions: tuple[Rendition, ...] = RUNGS) -> RecordingTotals:
    running_totals = RecordingTotals()
    for each in steps:
        fresh = {} if running_totals.steps else dict.fromkeys(NAMES, 50)
        running_totals = running_totals.with_step(each, renditions, CODECS, fresh)
    return running_totals


def media(name: str, *pages: tuple[Step, ...]) -> MediaPlaylist:
    playlists = RecordedPlaylists(tallied(*(each for page in pages for each in page)))
    for page in pages:
        playlists.add(page)
    playlist = parse(playlists.media_playlists()[name])
    assert isinstance(playlist, MediaPlaylist)
    return playlist


def test_a_record_has_its_length_and_bytes() -> None:
    running_totals = tallied(step(0), step(1, gaps=(TOP.name,)), step(2, duration=3 * TWO // 2))
    assert running_totals.ticks == 2 * TWO + 3 * TWO // 2
    assert running_totals.sizes == {TOP.name: 2050, LOW.name: 3050, AUDIO_RENDITION: 3050}
    assert (running_totals.steps, running_totals.last, running_totals.longest) == (
        3,
        2,
        3 * TWO // 2,
    )
    assert running_totals.is_playable
    assert running_totals.present == RUNGS


def test_a_rung_that_never_was_there_is_none_of_the_video() -> None:
    steps = (step(0, gaps=(TOP.name,)), step(1, gaps=(TOP.name,)))
    running_totals = tallied(*steps)
    assert running_totals.present == (LOW,)
    playlists = RecordedPlaylists(running_totals)
    playlists.add(steps)
    assert set(playlists.media_playlists()) == {LOW.name, AUDIO_RENDITION}
    assert [variant.height for variant in playlists.multivariant("1-1").variants] == [LOW.height]


@pytest.mark.parametrize("by", ["gaps", "borrowed"])
@pytest.mark.parametrize("name", [TOP.name, LOW.name])
@pytest.mark.parametrize(
    ("lacking", "listed"),
    [
        pytest.param(1, True, id="shed once for a moment"),
        pytest.param(2, True, id="98 percent are its own"),
        pytest.param(3, False, id="less"),
        pytest.param(99, False, id="one segment alone is its own"),
    ],
)
def test_a_rung_that_was_shed_for_long_is_no_variant(
    by: str, name: str, lacking: int, listed: bool
) -> None:
    missing = [(name,) if number < lacking else () for number in range(100)]
    if by == "gaps":
        steps = [step(number, gaps=names) for number, names in enumerate(missing)]
    else:
        steps = [step(number, borrowed=names) for number, names in enumerate(missing)]
    totals = tallied(*steps)
    assert totals.present == RUNGS
    whole = tuple(rung for rung in RUNGS if rung.name != name)
    assert totals.listed == (RUNGS if listed else whole)
    heights = {each.height for each in RecordedPlaylists(totals).multivariant("1-1").variants}
    assert heights == {rung.height for rung in totals.listed}


def test_where_no_rung_is_whole_the_most_complete_one_is_a_variant() -> None:
    steps = [step(number, gaps=(TOP.name if number < 6 else LOW.name,)) for number in range(10)]
    assert tallied(*steps).listed == (LOW,)
    even = [step(number, gaps=(TOP.name if number < 5 else LOW.name,)) for number in range(10)]
    assert tallied(*even).listed == RUNGS


def test_what_is_borrowed_is_stored_and_shown_and_says_nothing_of_the_rungs_rates() -> None:
    own = tallied(step(0), step(1))
    lent = tallied(step(0), step(1), step(2, borrowed=(LOW.name,), init=1))
    assert lent.sizes[LOW.name] == own.sizes[LOW.name] + 1000
    assert (lent.spans[LOW.name], lent.inits[LOW.name]) == (3 * TWO, 1)
    assert lent.measures[LOW.name].average == own.measures[LOW.name].average
    assert lent.measures[LOW.name].ticks == 2 * TWO


def test_sound_alone_is_no_video_of_a_run_with_a_picture() -> None:
    running_totals = tallied(step(0, gaps=(TOP.name, LOW.name)))
    assert not running_totals.is_playable
    assert tallied(step(0), renditions=()).is_playable


def test_the_first_step_continues_nothing() -> None:
    first = fit_step(step(7, discontinuity=True), RecordingTotals(), ())
    assert first is not None
    assert not first.discontinuity


@pytest.mark.parametrize(
    ("sequence", "own", "parted"),
    [
        pytest.param(1, False, False, id="the next"),
        pytest.param(1, True, True, id="another source"),
        pytest.param(2, False, True, id="one was lost"),
    ],
)
def test_what_does_not_follow_is_parted(sequence: int, own: bool, parted: bool) -> None:
    fitted = fit_step(step(sequence, discontinuity=own), tallied(step(0)), ())
    assert fitted is not None
    assert fitted.discontinuity is parted


def test_what_could_not_be_kept_is_a_gap() -> None:
    fitted = fit_step(step(0), RecordingTotals(), (TOP.name,))
    assert fitted is not None
    assert fitted.gaps == {TOP.name}
    assert fitted.segments[TOP.name].size == 0
    assert fit_step(step(0), RecordingTotals(), NAMES) is None
    assert fit_step(step(0), RecordingTotals(), (TOP.name, LOW.name)) is None


def test_the_playlist_of_a_record_is_whole() -> None:
    steps = (step(0), step(1, gaps=(TOP.name,)), step(2, duration=3 * TWO // 2, init=1))
    text = RecordedPlaylists(tallied(*steps))
    text.add(steps)
    lines = text.media_playlists()[TOP.name].splitlines()
    assert lines == [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        "#EXT-X-TARGETDURATION:3",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MAP:URI="init-0.mp4"',
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:10.123Z",
        "#EXTINF:2.000000,",
        "0.m4s",
        "#EXT-X-GAP",
        "#EXTINF:2.000000,",
        "1.m4s",
        '#EXT-X-MAP:URI="init-1.mp4"',
        "#EXTINF:3.000000,",
        "2.m4s",
        "#EXT-X-ENDLIST",
    ]


def test_the_wall_clock_is_listed_where_it_may_jump() -> None:
    playlist = media(TOP.name, (step(0), step(1)), (step(2, discontinuity=True), step(3)))
    assert [one.wall_us is not None for one in playlist.segments] == [True, False, True, False]
    assert [one.discontinuity for one in playlist.segments] == [False, False, True, False]


def test_a_lost_page_leaves_a_discontinuity_between_its_neighbours() -> None:
    playlist = media(TOP.name, (step(0), step(1)), (), (step(4), step(5)))
    assert [one.uri for one in playlist.segments] == ["0.m4s", "1.m4s", "4.m4s", "5.m4s"]
    assert [one.discontinuity for one in playlist.segments] == [False, False, True, False]


steps_of_runs = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.booleans(),
        st.sets(st.sampled_from((TOP.name, AUDIO_RENDITION))),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=40,
)


@given(steps_of_runs, st.integers(1, 7))
def test_pages_of_any_size_make_the_same_playlists(
    shapes: list[tuple[int, bool, set[str], int]], size: int
) -> None:
    steps: list[Step] = []
    sequence, running_totals = 0, RecordingTotals()
    for ahead, apart, gaps, init in shapes:
        sequence += ahead
        fitted = fit_step(step(sequence, discontinuity=apart, init=init), running_totals, gaps)
        assert fitted is not None  # the lower rung is always there
        steps.append(fitted)
        running_totals = running_totals.with_step(fitted, RUNGS, CODECS, {})
    whole, paged = RecordedPlaylists(running_totals), RecordedPlaylists(running_totals)
    whole.add(steps)
    for start in range(0, len(steps), size):
        page = RecordingPage(steps=tuple(steps[start : start + size]), totals=running_totals)
        paged.add(msgspec.json.decode(msgspec.json.encode(page), type=RecordingPage).steps)
    assert paged.media_playlists() == whole.media_playlists()
    for text in whole.media_playlists().values():
        playlist = parse(text)
        assert isinstance(playlist, MediaPlaylist)
        assert playlist.ended
        assert playlist.whole
        assert len(playlist.segments) == len(steps)
        assert [one.discontinuity for one in playlist.segments] == [
            each.discontinuity for each in steps
        ]
