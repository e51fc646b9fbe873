import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.hls.segment import EpochStart, GapStart, InitSection, Part, Segment, SegmentStart
from media.ladder import ladder_for
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.protocol.messages import (
    MAX_FRAME,
    Begin,
    EngineOrder,
    EngineReport,
    EpochFinished,
    Finish,
    Packet,
    Prepared,
    Progress,
    Trouble,
    WireError,
    WireReader,
    pack,
)

ORDERS: list[EngineOrder] = [
    Begin(
        epoch=3,
        video=VideoTrack(codec=VideoCodec.AVC, config=b"\x01d\x00\x1f", width=1280, height=720),
        audio=AudioTrack(codec=AudioCodec.AAC, config=b"\x12\x10", rate=44_100, channels=2),
        ladder=ladder_for(1280, 720, frozenset({"720p", "360p"})),
        start=900_000,
        sequence=7,
        inits={"720p": 2},
        discontinuity=True,
    ),
    Packet(video=True, dts=-66, pts=0, key=True, data=bytes(range(256))),
    Packet(video=False, dts=1 << 40, pts=1 << 40, key=True, data=b"", came_us=1 << 50),
    Finish(),
]
REPORTS: list[EngineReport] = [
    Prepared(epoch=3, names=("720p", "audio"), reused="720p", part=43_200),
    EpochStart(epoch=3, start=900_000, came_us=1 << 50),
    InitSection(rendition="720p", number=2, codecs="avc1.64001F", data=b"ftyp"),
    SegmentStart(rendition="720p", sequence=7, epoch=3, start=900_000, init=2, discontinuity=True),
    GapStart(rendition="720p", sequence=7),
    Part(rendition="720p", sequence=7, index=0, duration=45_000, independent=True, data=b"moof"),
    Segment(
        rendition="720p",
        sequence=7,
        epoch=3,
        start=900_000,
        duration=180_000,
        size=4,
        frames=60,
        parts=1,
        init=2,
        discontinuity=True,
    ),
    EpochFinished(epoch=3, end=1_080_000, frames_in=60, frames_out={"720p": 60}),
    Progress(epoch=3, taken=2000, made=1900, frames=60, cpu_ms=400, memory_bytes=1 << 27),
    Trouble(what="packet not decoded", detail="Invalid data", count=2),
]


def test_orders_arrive_as_they_were_sent() -> None:
    reader: WireReader[EngineOrder] = WireReader(EngineOrder)
    assert reader.feed(b"".join(map(pack, ORDERS))) == ORDERS


def test_reports_arrive_byte_by_byte_as_they_were_sent() -> None:
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    reports: list[EngineReport] = []
    for byte in b"".join(map(pack, REPORTS)):
        reports += reader.feed(bytes([byte]))
    assert reports == REPORTS


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    with pytest.raises(WireError):
        reader.feed((MAX_FRAME + 1).to_bytes(4, "big"))


def test_an_order_is_no_report() -> None:
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    with pytest.raises(WireError):
        reader.feed(pack(Finish()))


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_messages_or_a_wire_error(portions: list[bytes]) -> None:
    reader: WireReader[EngineOrder] = WireReader(EngineOrder)
    try:
        for portion in portions:
            reader.feed(portion)
    except WireError:
        pass
