"""The epochs that a run has ordered from its engines."""

import pytest

from media.ladder import ladder_for
from media.source_mark import SourceMark
from media.track import VideoCodec, VideoTrack
from transcode.live.epochs import Epochs
from transcode.protocol.messages import Prepared, Spliced, TakenOver

LABELS = frozenset({"720p", "360p"})


def video(width: int = 1280, height: int = 720) -> VideoTrack:
    return VideoTrack(codec=VideoCodec.AVC, config=b"a", width=width, height=height)


def begun(epochs: Epochs, wall_us: int = 5) -> int:
    return epochs.add(epochs.ladder(video()), wall_us=wall_us, following=0)


def test_the_first_source_gives_the_run_its_renditions() -> None:
    epochs = Epochs(LABELS)
    assert epochs.ladder(None) is None
    assert epochs.ladder(video()) == ladder_for(1280, 720, LABELS)
    assert [rung.name for rung in epochs.renditions] == ["720p", "360p"]


@pytest.mark.parametrize(("size", "same"), [((1280, 720), True), ((1920, 1080), False)])
def test_a_later_source_is_fitted_into_them(size: tuple[int, int], same: bool) -> None:
    epochs = Epochs(LABELS)
    epochs.ladder(video())
    ladder = epochs.ladder(video(*size))
    assert ladder is not None
    assert [(rung.name, rung.width) for rung in ladder.renditions] == [
        (rung.name, rung.width) for rung in epochs.renditions
    ]
    assert ladder.renditions[0].source_size is same


def test_numbers_are_used_once_by_any_counter() -> None:
    epochs = Epochs(LABELS)
    assert begun(epochs) == 0
    assert begun(epochs) == 1
    epochs.start(Prepared(epoch=1, names=(), reused=None))
    assert epochs.add(None, wall_us=1, following=7) == 7
    assert epochs.add(None, wall_us=1, following=0) == 8


def test_a_splice_ends_the_source_before_and_lists_what_is_encoded() -> None:
    epochs = Epochs(LABELS)
    begun(epochs)
    epochs.start(Prepared(epoch=0, names=("720p", "360p", "audio"), reused="720p"))
    assert (epochs.encoded, epochs.min_rungs) == (("360p",), 0)
    begun(epochs, wall_us=9)
    assert not epochs.is_newest(0)
    assert epochs.start(Spliced(epoch=1, reused=None)).wall_us == 9
    assert (epochs.encoded, epochs.min_rungs) == (("720p", "360p"), 1)


def test_only_the_newest_sources_top_rung_is_counted_as_taken_over() -> None:
    epochs = Epochs(LABELS)
    begun(epochs)
    epochs.start(Prepared(epoch=0, names=(), reused="720p"))
    begun(epochs)
    assert not epochs.encode_top_rung(TakenOver(epoch=0))
    assert epochs.encoded == ("360p",)
    epochs.start(Spliced(epoch=1, reused="720p"))
    assert epochs.encode_top_rung(TakenOver(epoch=1))
    assert (epochs.encoded, epochs.min_rungs) == (("720p", "360p"), 1)


def test_the_marks_of_a_source_are_known_until_another_one_has_started() -> None:
    epochs = Epochs(LABELS)
    mark = SourceMark(pts=7, digest=8)
    number = epochs.add(None, wall_us=0, following=0, marks=lambda: (mark,))
    assert epochs.marks(number)() == (mark,)
    following = epochs.add(None, wall_us=0, following=0)
    epochs.start(Spliced(epoch=following, reused=None))
    assert epochs.marks(number)() == epochs.marks(following)() == ()
