"""What a watch engine is sent and what it answers, through the wire."""

import pytest

from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.protocol.messages import EngineReport, WireError, WireReader, pack
from transcode.protocol.report_reader import ReportReader
from transcode.protocol.watch_messages import (
    MOST_FINDINGS,
    AlignedSource,
    Compare,
    Compared,
    Found,
    Judge,
    Judged,
    Unwatch,
    Watch,
    WatchedPicture,
    WatchedPictures,
    WatchedSound,
    WatchOrder,
)

TRACK = AudioTrack(codec=AudioCodec.AAC, config=b"\x12\x10", rate=44_100, channels=2)
PICTURE = VideoTrack(codec=VideoCodec.AVC, config=b"\1", width=640, height=360)
ORDERS: list[WatchOrder] = [
    Watch(source=0, audio=TRACK),
    Watch(source=1, audio=None),
    Watch(source=2, audio=TRACK, video=PICTURE, is_judged=True),
    WatchedPictures(source=2, packets=(WatchedPicture(-40, 0, True, b"a"),)),
    Judge(sources=(AlignedSource(source=0, offset_us=None), AlignedSource(source=1, offset_us=-3))),
    WatchedSound(source=0, packets=((-21, b"a"), (1 << 40, bytes(range(256))))),
    Compare(reference=0, other=1, seconds=5.0),
    Compare(reference=0, other=1, seconds=3.0, near_us=-1_371_300),
    Unwatch(source=0),
]
REPORTS: list[EngineReport] = [
    Compared(reference=0, other=1, offset_us=-3, exact=True, correlation=0.6, ratio=3.8),
    Compared(reference=0, other=1, offset_us=None, reason="ambiguous", correlation=0.9, ratio=1.0),
    Judged(found=()),
    Judged(found=(Found(source=0, kind="black", verdict="fault", seconds=3.2, confidence=0.9),)),
]


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_messages_come_out_as_they_went_in(size: int) -> None:
    orders: WireReader[WatchOrder] = WireReader(WatchOrder)
    reports = ReportReader("watch")
    for reader, messages in ((orders, ORDERS), (reports, REPORTS)):
        data = b"".join(map(pack, messages))
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        assert [each for piece in pieces for each in reader.feed(piece)] == messages


def found(*, kind: str = "black", seconds: float = 1.0, confidence: float = 0.5) -> Found:
    return Found(
        source=0,
        kind=kind,  # type: ignore[arg-type] # the reader must refuse others
        verdict="fault",
        seconds=seconds,
        confidence=confidence,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        (found(),) * (MOST_FINDINGS + 1),
        (found(kind="green"),),
        (found(seconds=-1.0),),
        (found(seconds=float("nan")),),
        (found(seconds=1e12),),
        (found(confidence=1.5),),
        (found(confidence=float("nan")),),
    ],
    ids=["too many", "another kind", "negative", "no number", "for ever", "too sure", "unsure"],
)
def test_a_judgement_beyond_its_bounds_is_refused(wrong: tuple[Found, ...]) -> None:
    reader = ReportReader("watch")
    with pytest.raises(WireError):
        list(reader.feed(pack(Judged(found=wrong))))
