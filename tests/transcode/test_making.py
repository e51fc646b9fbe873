"""What is to be made of a file, and how far it is: pure."""

import pytest

from media.ladder import ladder_for
from storage.catalog.transcoding import VideoWork
from storage.jobs import HeldJob
from transcode.making import eta_of, folders_of, order_for
from transcode.wire import Probed


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
    found = Probed(
        container="mp4",
        length_us=1,
        width=size[0],
        height=size[1],
        codec_width=coded[0],
        codec_height=coded[1],
        rotation=rotation,
    )
    order = order_for(found)
    assert order.reuse is reuse
    assert order.ladder == ladder_for(*size, frozenset({"360p", "480p", "720p", "1080p"}))


def test_sound_alone_needs_no_ladder() -> None:
    assert order_for(Probed(container="mp3", length_us=1)).ladder is None


@pytest.mark.parametrize(
    ("done", "elapsed", "eta"), [(0.0, 9, 0), (0.25, 10, 30), (0.5, 10, 10), (1.0, 10, 0)]
)
def test_what_is_left_follows_from_what_it_took(done: float, elapsed: float, eta: int) -> None:
    assert eta_of(done, elapsed) == eta


def test_each_attempt_has_folders_of_its_own() -> None:
    work = VideoWork(
        video=1, hash="Ab3dEf6hIj9l", source="", generation=2, media=None, posters=None
    )
    held = HeldJob(id=1, video=1, owner="a", attempt=3, failures=0)
    assert folders_of(work, held) == ("2-3", "poster-2-3")
