"""Enhanced RTMP's tag headers (v2, "Enhanced Audio" and "Video"): forms, tracks, modifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.enhanced import EnhancedTag, parse_audio_tag, parse_video_tag
from ingest.rtmp.errors import UnsupportedMedia
from ingest.rtmp.events import Event, TrackFound
from media.packet import MediaPacket
from media.track import AudioCodec, VideoCodec
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.rtmp_peer import AAC_CONFIG, AVC_CONFIG, feed

AVC, AAC = b"avc1", b"mp4a"
NANOSECONDS = b"\x02\x00\x12\x34"  # a modifier of three bytes
COLOURS = b"\x02\x00\x09colorInfo\x03\x00\x00\x09"


def video(body: bytes) -> tuple[int, bytes, bytes] | None:
    return plain(parse_video_tag(memoryview(body)))


def audio(body: bytes) -> tuple[int, bytes, bytes] | None:
    return plain(parse_audio_tag(memoryview(body)))


def plain(part: EnhancedTag | None) -> tuple[int, bytes, bytes] | None:
    return (part.kind, part.fourcc, bytes(part.body)) if part is not None else None


def track(number: int, body: bytes, *, fourcc: bytes = b"") -> bytes:
    """Return a track of several: its number, its size, its data."""
    return fourcc + bytes((number,)) + len(body).to_bytes(3, "big") + body


@pytest.mark.parametrize(
    ("body", "part"),
    [
        pytest.param(b"\x90hvc1abc", (0, b"hvc1", b"abc"), id="SequenceStart"),
        pytest.param(b"\x91hvc1abc", (1, b"hvc1", b"abc"), id="CodedFrames"),
        pytest.param(b"\x92hvc1", (2, b"hvc1", b""), id="SequenceEnd"),
        pytest.param(b"\xa3hvc1abc", (3, b"hvc1", b"abc"), id="CodedFramesX"),
        pytest.param(b"\xd4hvc1" + COLOURS, (4, b"hvc1", COLOURS), id="Metadata of a command"),
        pytest.param(b"\x95av01abc", (5, b"av01", b"abc"), id="MPEG2TSSequenceStart"),
        pytest.param(b"\x9favc1abc", (15, b"avc1", b"abc"), id="a packet type not yet thought of"),
        pytest.param(b"\xd1hvc1", None, id="a command frame"),
        pytest.param(b"\x96\x01avc1\x00abc", (1, AVC, b"abc"), id="OneTrack, the first"),
        pytest.param(b"\x96\x01avc1\x01abc", None, id="OneTrack, another"),
        pytest.param(
            b"\x96\x11avc1" + track(1, b"one") + track(0, b"none"), (1, AVC, b"none"),
            id="ManyTracks",
        ),
        pytest.param(
            b"\x96\x21" + track(2, b"two", fourcc=b"vvc1") + track(0, b"none", fourcc=AVC),
            (1, AVC, b"none"),
            id="ManyTracksManyCodecs",
        ),
        pytest.param(b"\x96\x11avc1" + track(1, b"one") + track(2, b"two"), None, id="no first"),
        pytest.param(b"\x96\x31avc1\x00abc", None, id="a multitrack type not yet thought of"),
        pytest.param(b"\x97" + NANOSECONDS + b"\x01hvc1a", (1, b"hvc1", b"a"), id="nanoseconds"),
        pytest.param(b"\x97\x00\xff\x11hvc1a", (1, b"hvc1", b"a"), id="an unknown modifier"),
        pytest.param(
            b"\x97" + NANOSECONDS + b"\x07\x00\xff\x03hvc1a", (3, b"hvc1", b"a"), id="two modifiers"
        ),
        pytest.param(
            b"\x97\xff\x01\x2b" + bytes(300) + b"\x01hvc1a", (1, b"hvc1", b"a"),
            id="a modifier of 300 bytes",
        ),
        pytest.param(
            b"\x97" + NANOSECONDS + b"\x06\x01avc1\x00a", (1, AVC, b"a"), id="modified multitrack"
        ),
        pytest.param(
            b"\x97" + b"\0\0\7" * 15 + b"\0\0\1hvc1a", (1, b"hvc1", b"a"), id="16 modifiers"
        ),
        pytest.param(b"\x97" + b"\0\0\7" * 16 + b"\0\0\1hvc1a", None, id="17 modifiers"),
        pytest.param(
            b"\x96\x11avc1" + track(1, b"") * 255 + track(0, b"a"), (1, AVC, b"a"), id="256 tracks"
        ),
        pytest.param(b"\x96\x11avc1" + track(1, b"") * 256 + track(0, b"a"), None, id="257 tracks"),
        pytest.param(b"\x90", None, id="nothing behind the first byte"),
        pytest.param(b"\x90hvc", None, id="a FourCC cut off"),
        pytest.param(b"\x97", None, id="a modifier without a size"),
        pytest.param(b"\x97\x09abc", None, id="a modifier cut off"),
        pytest.param(b"\x97\xff\xff", None, id="a long modifier's size cut off"),
        pytest.param(b"\x96", None, id="multitrack without a type"),
        pytest.param(b"\x96\x01av", None, id="its FourCC cut off"),
        pytest.param(b"\x96\x11avc1\x00\x00\x01", None, id="a track's size cut off"),
        pytest.param(b"\x96\x11avc1\x00\x00\x00\x09abc", None, id="a track cut off"),
    ],
)  # fmt: skip
def test_the_first_tracks_part_of_a_picture_tag_is_found(
    body: bytes, part: tuple[int, bytes, bytes] | None
) -> None:
    assert video(body) == part


@pytest.mark.parametrize(
    ("body", "part"),
    [
        pytest.param(b"\x90Opusabc", (0, b"Opus", b"abc"), id="SequenceStart"),
        pytest.param(b"\x91Opusabc", (1, b"Opus", b"abc"), id="CodedFrames"),
        pytest.param(b"\x92Opus", (2, b"Opus", b""), id="SequenceEnd"),
        pytest.param(b"\x94Opus\x01\x02", (4, b"Opus", b"\x01\x02"), id="MultichannelConfig"),
        pytest.param(b"\x95\x01mp4a\x00abc", (1, AAC, b"abc"), id="OneTrack, the first"),
        pytest.param(b"\x95\x01mp4a\x01abc", None, id="OneTrack, another: OBS's second sound"),
        pytest.param(
            b"\x95\x11mp4a" + track(0, b"none") + track(1, b"one"), (1, AAC, b"none"),
            id="ManyTracks",
        ),
        pytest.param(
            b"\x95\x21" + track(1, b"one", fourcc=b"Opus") + track(0, b"", fourcc=AAC),
            (1, AAC, b""),
            id="ManyTracksManyCodecs",
        ),
        pytest.param(b"\x97" + NANOSECONDS + b"\x01Opusa", (1, b"Opus", b"a"), id="nanoseconds"),
        pytest.param(b"\x96Opusabc", (6, b"Opus", b"abc"), id="a packet type not yet thought of"),
    ],
)  # fmt: skip
def test_the_first_tracks_part_of_a_sound_tag_is_found(
    body: bytes, part: tuple[int, bytes, bytes] | None
) -> None:
    assert audio(body) == part


def events_of(*bodies: bytes, kind: str = "video") -> list[Event]:
    send = encoder.video if kind == "video" else encoder.audio
    return feed(encoder.publishing(), map(send, bodies))


def test_enhanced_avc_is_what_legacy_avc_is() -> None:
    enhanced = events_of(b"\x90avc1" + AVC_CONFIG, b"\x91avc1\x00\x00\x42data", b"\xa3avc1data")
    legacy = events_of(b"\x17\x00\x00\x00\x00" + AVC_CONFIG, b"\x17\x01\x00\x00\x42data",
                       b"\x27\x01\x00\x00\x00data")  # fmt: skip
    assert enhanced == legacy
    assert [type(event) for event in enhanced] == [TrackFound, MediaPacket, MediaPacket]


def test_enhanced_aac_is_what_legacy_aac_is() -> None:
    enhanced = events_of(b"\x90mp4a" + AAC_CONFIG, b"\x91mp4adata", kind="audio")
    assert enhanced == events_of(b"\xaf\x00" + AAC_CONFIG, b"\xaf\x01data", kind="audio")
    assert len(enhanced) == 2


@pytest.mark.parametrize(("offset", "pts"), [(b"\x00\x00\x42", 66), (b"\xff\xff\xd8", -40)])
def test_composition_times_are_signed(offset: bytes, pts: int) -> None:
    events = events_of(b"\x90avc1" + AVC_CONFIG, b"\xa1avc1" + offset + b"data")
    assert isinstance(events[1], MediaPacket)
    assert (events[1].dts, events[1].pts) == (0, pts)


def test_obs_second_sound_track_beside_legacy_aac_is_passed_over() -> None:
    events = events_of(
        b"\xaf\x00" + AAC_CONFIG,
        b"\x95\x00mp4a\x01\x11\x90",
        b"\xaf\x01first",
        b"\x95\x01mp4a\x01second",
        kind="audio",
    )
    assert [type(event) for event in events] == [TrackFound, MediaPacket]
    assert isinstance(events[1], MediaPacket)
    assert events[1].data == b"first"


def test_of_several_tracks_the_first_is_taken_whatever_codec_the_others_have() -> None:
    many = b"\x96\x20" + track(1, b"?", fourcc=b"vvc1") + track(0, AVC_CONFIG, fourcc=AVC)
    coded = b"\xa6\x21" + track(0, b"\0\0\0data", fourcc=AVC) + track(1, b"?", fourcc=b"vvc1")
    events = events_of(many, coded)
    assert [type(event) for event in events] == [TrackFound, MediaPacket]
    assert isinstance(events[1], MediaPacket)
    assert events[1].data == b"data"
    assert events[1].track.codec is VideoCodec.AVC


def test_colours_speakers_and_ends_change_nothing() -> None:
    events = events_of(b"\x90avc1" + AVC_CONFIG, b"\xd4avc1" + COLOURS, b"\x92avc1")
    assert len(events) == 1
    events = events_of(b"\x90mp4a" + AAC_CONFIG, b"\x94mp4a\x01\x01\0\0\0\x04", b"\x92mp4a",
                       kind="audio")  # fmt: skip
    assert len(events) == 1
    assert isinstance(events[0], TrackFound)
    assert events[0].track.codec is AudioCodec.AAC


@pytest.mark.parametrize(
    ("body", "codec"),
    [
        pytest.param(b"\x90vvc1", "VVC", id="VVC"),
        pytest.param(b"\x90vp08", "VP8", id="VP8"),
        pytest.param(b"\x96\x00vvc1\x00", "VVC", id="as the first of several tracks"),
        pytest.param(b"\x95av01\x80\x04\x81", "AV1 in MPEG-2 TS form", id="AV1 in MPEG-2 TS form"),
    ],
)
def test_unsupported_codecs_are_refused_by_name(body: bytes, codec: str) -> None:
    with pytest.raises(UnsupportedMedia) as caught:
        events_of(body)
    assert caught.value.codec == codec


@given(st.binary(min_size=1, max_size=400))
def test_any_bytes_give_a_part_of_themselves_or_nothing(body: bytes) -> None:
    for part in (video(body), audio(body)):
        assert part is None or (len(part[1]) == 4 and part[1] in body and part[2] in body)
