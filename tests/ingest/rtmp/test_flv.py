"""FLV bodies (Adobe FLV 10.1, E.4): their tags become tracks and packets.

`test_enhanced` tests the tags of enhanced RTMP, `test_codecs` the codecs.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.errors import MessageError, RtmpError, UnsupportedMedia
from ingest.rtmp.events import ClockJumped, Event, MediaUnusable, TrackFound
from ingest.rtmp.flv import FlvReader, split_aggregate
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from tests.support.ingest.rtmp_peer import (
    AAC_CONFIG,
    AVC_CONFIG,
    audio_body,
    audio_config,
    video_body,
    video_config,
)

VIDEO_TRACK = VideoTrack(codec=VideoCodec.AVC, config=AVC_CONFIG, width=160, height=90)
AUDIO_TRACK = AudioTrack(codec=AudioCodec.AAC, config=AAC_CONFIG, rate=44_100, channels=1)


class Tags:
    """A reader of FLV bodies, and its events."""

    def __init__(self) -> None:
        self.reader = FlvReader()
        self.found: list[Event] = []

    def video(self, body: bytes, stamp: int = 0) -> bool:
        return self.reader.read_video(stamp, memoryview(body), self.found)

    def audio(self, body: bytes, stamp: int = 0) -> bool:
        return self.reader.read_audio(stamp, memoryview(body), self.found)


def test_configurations_become_tracks() -> None:
    tags_ = Tags()
    assert tags_.video(video_config())
    assert tags_.audio(audio_config())
    assert tags_.found == [TrackFound(VIDEO_TRACK), TrackFound(AUDIO_TRACK)]


def test_identical_configurations_give_no_events() -> None:
    tags_ = Tags()
    for _ in range(3):
        assert tags_.video(video_config())
        assert tags_.audio(audio_config())
    assert len(tags_.found) == 2


def test_a_different_configuration_is_a_new_track_of_its_packets() -> None:
    tags_ = Tags()
    tags_.audio(audio_config())
    stereo = bytes.fromhex("1210")
    tags_.audio(audio_config(stereo))
    tags_.audio(audio_body(b"x"))
    assert isinstance(tags_.found[1], TrackFound)
    packet = tags_.found[2]
    assert isinstance(packet, MediaPacket)
    assert packet.track == tags_.found[1].track
    assert isinstance(packet.track, AudioTrack)
    assert packet.track.channels == 2


@pytest.mark.parametrize(
    ("first", "offset", "key", "pts"),
    [
        pytest.param(0x17, 0, True, 1000, id="keyframe"),
        pytest.param(0x27, 0, False, 1000, id="inter frame"),
        pytest.param(0x37, 0, False, 1000, id="disposable frame"),
        pytest.param(0x47, 0, True, 1000, id="generated keyframe"),
        pytest.param(0x27, 67, False, 1067, id="shown later"),
        pytest.param(0x27, -40, False, 960, id="a negative composition time"),
        pytest.param(0x27, -0x80_0000, False, 1000 - 0x80_0000, id="the least there is"),
        pytest.param(0x27, 0x7F_FFFF, False, 1000 + 0x7F_FFFF, id="the greatest there is"),
    ],
)
def test_a_picture_becomes_a_packet(first: int, offset: int, key: bool, pts: int) -> None:
    tags_ = Tags()
    tags_.video(video_config())
    body = bytes((first,)) + video_body(b"\0\0\0\1A", offset=offset)[1:]
    assert tags_.video(body, 1000)
    packet = MediaPacket(track=VIDEO_TRACK, dts=1000, pts=pts, key=key, data=b"\0\0\0\1A")
    assert tags_.found[1:] == [packet]


def test_sound_becomes_a_packet() -> None:
    tags_ = Tags()
    tags_.audio(audio_config())
    assert tags_.audio(audio_body(b"\x21\x10"), 23)
    packet = MediaPacket(track=AUDIO_TRACK, dts=23, pts=23, key=True, data=b"\x21\x10")
    assert tags_.found[1:] == [packet]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="zero length"),
        pytest.param(b"\x17", id="one byte"),
        pytest.param(b"\x17\x01\0\0\0", id="no data"),
        pytest.param(b"\x17\x02\0\0\0", id="end of sequence"),
        pytest.param(b"\x57\x00", id="command frame"),
        pytest.param(b"\x96\x01hvc1\x01x", id="a further track of Enhanced RTMP"),
    ],
)
def test_video_tags_without_a_packet_are_ignored(body: bytes) -> None:
    tags_ = Tags()
    tags_.video(video_config())
    assert not tags_.video(body)
    assert len(tags_.found) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="zero length"),
        pytest.param(b"\xaf", id="one byte"),
        pytest.param(b"\xaf\x01", id="no data"),
        pytest.param(b"\xaf\x00", id="an empty configuration"),
        pytest.param(b"\x95\x01mp4a\x01x", id="OBS's second sound track"),
    ],
)
def test_audio_tags_without_a_packet_are_ignored(body: bytes) -> None:
    tags_ = Tags()
    tags_.audio(audio_config())
    assert not tags_.audio(body)
    assert len(tags_.found) == 1


def test_packets_before_their_configuration_are_told_and_passed_over() -> None:
    tags_ = Tags()
    assert not tags_.video(video_body(b"x", key=True))
    assert not tags_.audio(audio_body(b"x"))
    assert not tags_.audio(b"\x2f\xff")  # MP3 without a whole header
    assert not tags_.audio(b"\x91fLaCx")
    none = "no decoder configuration came before it"
    assert tags_.found == [
        MediaUnusable(video=True, cause=none),
        MediaUnusable(video=False, cause=none),
        MediaUnusable(video=False, cause="its packets have no header that can be read"),
        MediaUnusable(video=False, cause=none),
    ]


def test_pictures_before_the_keyframe_that_describes_them_are_no_fault() -> None:
    tags_ = Tags()
    assert not tags_.video(b"\xa1vp09\x86\x00\x40")
    assert tags_.found == []


ANNEX_B = b"\0\0\0\1\x67\x64\0\x0c\xac" + b"\0\0\0\1\x65" + bytes(range(1, 90))


@pytest.mark.parametrize("config", [None, AVC_CONFIG, b"\0\0\0\1\x67\x64\0\x0c\xac"])
@pytest.mark.parametrize("start", [b"\x17\1\0\0\0", b"\x93avc1", b"\x93hvc1"])
def test_annex_b_is_told(config: bytes | None, start: bytes) -> None:
    tags_ = Tags()
    if config is not None:
        tags_.video(video_config(config))
    tags_.found.clear()
    assert not tags_.video(start + ANNEX_B)
    (told,) = tags_.found
    assert isinstance(told, MediaUnusable)
    assert told.video
    assert "Annex B" in told.cause


def test_a_configuration_in_annex_b_form_is_told_with_small_packets_too() -> None:
    tags_ = Tags()
    tags_.video(video_config(ANNEX_B[:9]))
    tags_.video(video_body(b"\0\0\0\1\x09"))
    (told,) = tags_.found
    assert isinstance(told, MediaUnusable)
    assert "Annex B" in told.cause


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0\0\1\x0a", id="the end of a sequence"),
        pytest.param(b"\0\0\0\1\x0a\0\0\0\4" + b"\x65abc", id="and a picture behind it"),
        pytest.param(b"\0\0\0\2\x09\xf0\0\0\0\4" + b"\x65abc", id="a delimiter"),
        pytest.param(b"\0\0\1\0" + bytes(256), id="a unit of 256 bytes"),
    ],
)
def test_length_prefixes_that_look_like_start_codes_are_packets(data: bytes) -> None:
    tags_ = Tags()
    tags_.video(video_config())
    assert tags_.video(video_body(data))
    assert isinstance(tags_.found[-1], MediaPacket)


@pytest.mark.parametrize(
    ("body", "codec"),
    [
        pytest.param(b"\x90vvc1", "VVC", id="Enhanced RTMP VVC"),
        pytest.param(b"\x91vp08", "VP8", id="Enhanced RTMP VP8"),
        pytest.param(b"\x95av01\x80\x00", "AV1 in MPEG-2 TS form", id="AV1 in MPEG-2 TS form"),
        pytest.param(b"\x90\nkey", "FourCC 0a6b6579", id="a FourCC that nobody knows"),
        pytest.param(b"\x1e\x00", "codec 14", id="a number with three meanings"),
        pytest.param(b"\x12", "Sorenson H.263", id="Flash's first"),
        pytest.param(b"\x1f", "codec 15", id="a number that nobody knows"),
    ],
)
def test_another_video_codec_is_named(body: bytes, codec: str) -> None:
    with pytest.raises(UnsupportedMedia, match="to H") as caught:
        Tags().video(body)
    assert (caught.value.kind, caught.value.codec) == ("video", codec)
    assert caught.value.code == "NetStream.Publish.Rejected"


@pytest.mark.parametrize(
    ("body", "codec"),
    [
        pytest.param(b"\x90dts1", "FourCC 64747331", id="a FourCC that nobody knows"),
        pytest.param(b"\x7e", "G.711 A-law", id="G.711"),
        pytest.param(b"\xb6", "Speex", id="Speex"),
        pytest.param(b"\xff", "format 15", id="a number that nobody knows"),
    ],
)
def test_another_audio_codec_is_named(body: bytes, codec: str) -> None:
    with pytest.raises(UnsupportedMedia, match="AAC") as caught:
        Tags().audio(body)
    assert (caught.value.kind, caught.value.codec) == ("audio", codec)


NO_SETS = b"\x01\x64\x00\x0c\xff\xe0\x00"


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        (b"", "it is empty"),
        (b"\x01", "no avcC record"),
        (b"\x02" * 40, "no avcC record"),
        (NO_SETS, "a record without parameter sets"),
        (AVC_CONFIG[:20], "ends within"),
        (bytes(70_000), "more than 65536 bytes"),
    ],
)
def test_an_avc_configuration_that_cannot_be_read_is_ignored_until_another_comes(
    config: bytes, cause: str
) -> None:
    tags_ = Tags()
    assert not tags_.video(video_config(config))
    assert tags_.found == []
    assert not tags_.video(video_body(b"x", key=True))
    (told,) = tags_.found
    assert isinstance(told, MediaUnusable)
    assert told.video
    assert told.cause.startswith("its decoder configuration cannot be read: ")
    assert cause in told.cause
    assert tags_.video(video_config())
    assert tags_.video(video_body(b"x", key=True))
    assert [type(each) for each in tags_.found[1:]] == [TrackFound, MediaPacket]
    # The former configuration holds if the next one cannot be read.
    assert not tags_.video(video_config(config))
    assert tags_.video(video_body(b"x", key=True))
    assert isinstance(tags_.found[-1], MediaPacket)


@pytest.mark.parametrize("config", [b"", b"\x12", bytes(70_000)])
def test_an_aac_configuration_that_cannot_be_read_is_ignored_until_another_comes(
    config: bytes,
) -> None:
    tags_ = Tags()
    assert not tags_.audio(audio_config(config))
    assert not tags_.audio(audio_body(b"x"))
    (told,) = tags_.found
    assert isinstance(told, MediaUnusable)
    assert not told.video
    assert told.cause.startswith("its decoder configuration cannot be read: ")
    assert tags_.audio(audio_config())
    assert tags_.audio(audio_body(b"x"))
    assert not tags_.audio(audio_config(config))
    assert tags_.audio(audio_body(b"x"))
    assert [type(each) for each in tags_.found[1:]] == [
        TrackFound, MediaPacket, MediaPacket,
    ]  # fmt: skip


def test_a_jump_is_told_before_its_packet() -> None:
    tags_ = Tags()
    tags_.audio(audio_config())
    tags_.audio(audio_body(b"a"), 100_000)
    tags_.audio(audio_body(b"b"), 40)
    assert tags_.found[2] == ClockJumped()
    assert isinstance(tags_.found[3], MediaPacket)
    assert tags_.found[3].dts == 40


def tag(kind: int, stamp: int, body: bytes) -> bytes:
    low = (stamp & 0xFFFFFF).to_bytes(3, "big") + bytes((stamp >> 24,))
    length = len(body).to_bytes(3, "big")
    return bytes((kind,)) + length + low + bytes(3) + body + (11 + len(body)).to_bytes(4, "big")


def test_an_aggregate_is_split_and_its_times_rebased() -> None:
    body = tag(8, 0x01000000, b"aa") + tag(9, 0x01000010, b"bbb") + tag(8, 0x01000017, b"")
    split = [
        (kind, stamp, bytes(data)) for kind, stamp, data in split_aggregate(5000, memoryview(body))
    ]
    assert split == [(8, 5000, b"aa"), (9, 5016, b"bbb"), (8, 5023, b"")]


@pytest.mark.parametrize("size", [1, 10, 12])
def test_an_aggregate_cut_off_is_an_error(size: int) -> None:
    with pytest.raises(MessageError):
        list(split_aggregate(0, memoryview(tag(8, 0, b"aa")[:size])))


def test_an_aggregate_may_leave_its_last_length_out() -> None:
    assert len(list(split_aggregate(0, memoryview(tag(8, 0, b"aa")[:-4])))) == 1


STARTS = [
    *(b"\x17\0\0\0\0\x01", b"\xaf\0", b"\x17\1", b"\xaf\1", b"\x90", b"\x97", b"\x1c\0", b"\x1c\1"),
    *(
        b"\x1d\0\0\0\0\x81",
        b"\x2f\xff\xfb",
        b"\x90hvc1\1",
        b"\x91hvc1",
        b"\x93hvc1",
        b"\x90av01\x81",
    ),
    *(b"\x91av01", b"\x91vp09\x82\x49\x83\x42", b"\x96\1avc1", b"\x96\x21", b"\x95\x11mp4a\0"),
    *(b"\x90OpusOpusHead", b"\x91Opus", b"\x90fLaCfLaC", b"\x91ac-3\x0b\x77", b"\x91ec-3\x0b\x77"),
]
BODIES = st.binary(max_size=60) | st.builds(
    bytes.__add__, st.sampled_from(STARTS), st.binary(max_size=60)
)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2**32 - 1), BODIES), max_size=8))
def test_any_bodies_give_events_or_an_error(bodies: list[tuple[bool, int, bytes]]) -> None:
    tags_ = Tags()
    tags_.video(video_config())
    try:
        for is_video, stamp, body in bodies:
            (tags_.video if is_video else tags_.audio)(body, stamp)
    except RtmpError:
        pass
    sizes = sum(len(e.data) for e in tags_.found if isinstance(e, MediaPacket))
    assert sizes <= sum(len(body) for _, _, body in bodies)


@given(st.binary(max_size=100))
def test_any_aggregate_is_split_or_an_error(body: bytes) -> None:
    try:
        parts = list(split_aggregate(0, memoryview(body)))
    except MessageError:
        return
    assert sum(11 + len(data) for _, _, data in parts) <= len(body)
