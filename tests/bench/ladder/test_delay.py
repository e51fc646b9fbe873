"""The rungs of a clip in both modes, and what is counted of them."""

from pathlib import Path

from av.video.frame import VideoFrame

from bench.ladder.delay import EncodedRung
from media.ladder import Rendition
from media.ticks import VIDEO_SCALE
from tests.support.engine.decoded_output import frames
from tests.support.engine.raw_images import flat
from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.encode import Quality

RUNG = Rendition(name="72p", width=128, height=72, rate=200_000)


def picture(number: int) -> VideoFrame:
    frame = flat(60 + number)
    frame.pts, frame.time_base = number * VIDEO_SCALE // 30, TIME_BASE
    return frame


def test_a_rung_counts_the_pictures_that_come_before_a_sample(tmp_path: Path) -> None:
    for mode, least, most in ((Quality.LIVE, 10, 16), (Quality.LOW_DELAY, 2, 2)):
        rung = EncodedRung(RUNG, picture(0), mode)
        for number in range(30):
            rung.add(number, picture(number))
        rung.add(30, None)
        assert least <= rung.delay <= most
        assert rung.cpu > 0
        assert len(frames(rung.write(tmp_path / "72p.mp4").read_bytes())) == 30
