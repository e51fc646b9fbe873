"""The plan of a file's renditions, and its progress: pure."""

import msgspec
import pytest

from media.ladder import ladder_for
from storage.catalog.records.transcoding import SpanWork, VideoWork
from storage.catalog.videos.jobs import SPAN
from tests.support.storage.leases import held_job
from transcode.protocol.file_messages import SpanOrder
from transcode.protocol.messages import Probed
from transcode.vod.asset_plan import (
    AssetProgress,
    attempt_folders,
    length_and_warnings,
    order_for,
    planned_spans,
    playing_ticks,
    seconds_left,
    span_folder,
)
from transcode.vod.rendition_store import MadeRendition, MadeSegment

SECOND = 90_000


@pytest.mark.parametrize(
    ("size", "coded", "rotation", "reuse"),
    [
        pytest.param((1280, 720), (1280, 720), 0, True, id="as it is"),
        pytest.param((720, 1280), (1280, 720), 90, False, id="turned"),
        pytest.param((720, 720), (720, 720), 180, False, id="upside down"),
        pytest.param((1920, 1080), (1440, 1080), 0, False, id="wide pixels"),
    ],
)
def test_a_files_own_packets_serve_where_the_picture_is_shown_as_it_is_coded(
    size: tuple[int, int], coded: tuple[int, int], rotation: int, reuse: bool
) -> None:
    probed = Probed(
        container="mp4",
        length_us=1,
        width=size[0],
        height=size[1],
        codec_width=coded[0],
        codec_height=coded[1],
        rotation=rotation,
    )
    order = order_for(probed)
    assert order.reuse is reuse
    assert order.ladder == ladder_for(*size, frozenset({"360p", "480p", "720p", "1080p"}))


def test_sound_alone_needs_no_ladder() -> None:
    assert order_for(Probed(container="mp3", length_us=1)).ladder is None


@pytest.mark.parametrize(
    ("done", "elapsed", "eta"), [(0.0, 9, 0), (0.25, 10, 30), (0.5, 10, 10), (1.0, 10, 0)]
)
def test_what_is_left_follows_from_what_it_took(done: float, elapsed: float, eta: int) -> None:
    assert seconds_left(done, elapsed, 1 - done) == eta


def test_what_comes_before_the_first_picture_is_not_counted_again() -> None:
    pace = AssetProgress(length_us=100_000_000, started=1000.0)
    assert pace.update(0, 1004.0) is None
    assert pace.update(1_000, 1020.0) == (1, 1980), "nothing else is known yet"
    assert pace.update(1_500, 1020.5) is None, "no whole percent more"
    assert pace.update(21_000, 1030.0) == (21, 40), "2 s of it each second, from the first on"
    assert pace.update(100_000, 1070.0) == (100, 0)


def test_without_a_declared_length_there_is_no_estimate() -> None:
    assert AssetProgress(length_us=0, started=1000.0).update(5_000, 1005.0) is None


def test_each_attempt_has_its_own_folders() -> None:
    work = VideoWork(
        video=1, hash="Ab3dEf6hIj9l", source="", generation=2, media=None, posters=None
    )
    job = held_job(attempt=3)
    assert attempt_folders(work, job) == ("2-3", "poster-2-3", "previews-2-3")


def stretch(*, first: float, key: float, pictures: int) -> SpanOrder:
    ticks = round(first * SECOND)
    return SpanOrder(
        rungs=(),
        sequence=0,
        cuts=(ticks,),
        end=ticks + 30 * SECOND,
        until=ticks + 30 * SECOND,
        before=ticks - 3_000,
        key=round(key * SECOND),
        pictures=pictures,
        offset=0,
        rate=30_000,
    )


def test_a_stretch_costs_its_pictures_and_a_little_for_those_before_it() -> None:
    stretches = (
        stretch(first=10, key=10, pictures=900),
        stretch(first=40, key=35, pictures=900),
    )
    spans = planned_spans(stretches)
    assert [(each.number, each.cost) for each in spans] == [(1, 900), (2, 930)]
    assert msgspec.json.decode(spans[1].order, type=SpanOrder) == stretches[1]


def test_what_plays_lasts_as_long_as_the_longest_of_what_is_made() -> None:
    segment = MadeSegment(sequence=0, size=1, duration=4 * SECOND, frames=100, init=1)
    sound = MadeRendition(name="audio", codecs="", size=1, inits={}, segments=(segment,) * 3)
    none = msgspec.structs.replace(sound, segments=())
    assert playing_ticks((), ()) == 0
    assert playing_ticks((none, sound), ()) == 12 * SECOND
    # The output's clock begins at 10 s.
    spans = (stretch(first=10, key=10, pictures=9), stretch(first=40, key=40, pictures=9))
    assert playing_ticks((sound,), spans) == 60 * SECOND


@pytest.mark.parametrize(
    ("claimed", "there", "length", "warned"),
    [
        pytest.param(60.0, 60.02, 60.0, False, id="as it says, but for a frame of sound"),
        pytest.param(0, 7.5, 7.5, False, id="it says nothing"),
        pytest.param(60.0, 59.2, 59.2, False, id="less than a second is no matter"),
        pytest.param(60.0, 30.0, 30.0, True, id="cut off"),
    ],
)
def test_a_length_is_what_is_there(
    claimed: float, there: float, length: float, warned: bool
) -> None:
    length_us, words = length_and_warnings(round(claimed * 1_000_000), round(there * SECOND))
    assert length_us == round(length * 1_000_000)
    assert bool(words) is warned


@pytest.mark.parametrize(
    ("reached", "warned"),
    [
        pytest.param(0, True, id="unknown"),
        pytest.param(30.1, True, id="no track goes on"),
        pytest.param(59.9, False, id="another track is longer"),
    ],
)
def test_a_file_whose_tracks_reach_its_end_is_not_cut_off(reached: float, warned: bool) -> None:
    length_us, words = length_and_warnings(60_000_000, 30 * SECOND, round(reached * SECOND))
    assert (length_us, bool(words)) == (30_000_000, warned)


def test_attempts_at_spans_have_their_own_folders() -> None:
    work = SpanWork(hash="Ab3dEf6hIj9l", source="", generation=2, cost=1, order="{}")
    span = msgspec.structs.replace(held_job(9, attempt=3), kind=SPAN, job=4, part=7)
    assert span_folder(work, span) == "2-s4-7-3"
