"""What a watch engine is sent and what it answers, through the wire."""

import pytest

from media.track import AudioCodec, AudioTrack
from transcode.protocol.messages import EngineReport, WireReader, pack
from transcode.protocol.report_reader import ReportReader
from transcode.protocol.watch_messages import (
    Compare,
    Compared,
    Unwatch,
    Watch,
    WatchedSound,
    WatchOrder,
)

TRACK = AudioTrack(codec=AudioCodec.AAC, config=b"\x12\x10", rate=44_100, channels=2)
ORDERS: list[WatchOrder] = [
    Watch(source=0, audio=TRACK),
    Watch(source=1, audio=None),
    WatchedSound(source=0, packets=((-21, b"a"), (1 << 40, bytes(range(256))))),
    Compare(reference=0, other=1, seconds=5.0),
    Compare(reference=0, other=1, seconds=3.0, near_us=-1_371_300),
    Unwatch(source=0),
]
REPORTS: list[EngineReport] = [
    Compared(reference=0, other=1, offset_us=-3, exact=True, correlation=0.6, ratio=3.8),
    Compared(reference=0, other=1, offset_us=None, reason="ambiguous", correlation=0.9, ratio=1.0),
]


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_messages_come_out_as_they_went_in(size: int) -> None:
    orders: WireReader[WatchOrder] = WireReader(WatchOrder)
    reports = ReportReader("watch")
    for reader, messages in ((orders, ORDERS), (reports, REPORTS)):
        data = b"".join(map(pack, messages))
        pieces = (data[start : start + size] for start in range(0, len(data), size))
        assert [each for piece in pieces for each in reader.feed(piece)] == messages
