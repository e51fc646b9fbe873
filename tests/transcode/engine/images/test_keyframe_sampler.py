"""Which keyframes of a film are sampled."""

from pathlib import Path

import pytest

from media.no_op import never
from tests.support.engine.upload_files import film
from transcode.engine.images.keyframe_sampler import sample_keyframes
from transcode.engine.input.container import open_upload, video_stream

SECOND = 1_000_000


@pytest.mark.parametrize("held_back", [0, 2])
def test_keyframes_are_found_all_over_a_film(tmp_path: Path, held_back: int) -> None:
    """With B-frames a decoder gives a keyframe only when it is flushed."""
    coding = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-sc_threshold", "0")
    path = film(tmp_path / "a.mp4", *coding, "-bf", str(held_back), seconds=10, size=(64, 64))
    with path.open("rb") as file, open_upload(file.fileno()) as upload:
        picture = video_stream(upload)
        assert picture is not None
        moments = [each.at for each in sample_keyframes(upload, picture, 10 * SECOND, never)]
    assert sorted(moments) == [0, 2000, 4000, 6000, 8000]
