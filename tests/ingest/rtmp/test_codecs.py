"""Every accepted codec: the session's packets decode to the frames that were encoded."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from av.codec.context import CodecContext
from av.packet import Packet
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.codecs import AUDIO_FOURCCS, VIDEO_FOURCCS
from ingest.rtmp.events import Event, MediaUnusable, TrackFound
from ingest.rtmp.flv import FlvReader
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack
from tests.support.counted_calls import counted_calls
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.coded_streams import (
    HEIGHT,
    PICTURES,
    RATE,
    SOUNDS,
    WIDTH,
    decoded,
    flv,
    samples,
)
from tests.support.ingest.coded_streams import tags_in as tags_of
from tests.support.ingest.rtmp_peer import cut, feed
from transcode.engine.codec.decode import TrackAudioDecoder, TrackVideoDecoder

VIDEO_KIND, AUDIO_KIND = MessageType.VIDEO, MessageType.AUDIO
LIMITS = Limits(chunks_per_second=1_000_000)

CODECS = {
    "libx264": VideoCodec.AVC,
    "libx265": VideoCodec.HEVC,
    "libsvtav1": VideoCodec.AV1,
    "libvpx-vp9": VideoCodec.VP9,
    "aac": AudioCodec.AAC,
    "libopus": AudioCodec.OPUS,
    "flac": AudioCodec.FLAC,
    "ac3": AudioCodec.AC3,
    "eac3": AudioCodec.EAC3,
    "libmp3lame": AudioCodec.MP3,
}
DECODERS = {
    VideoCodec.AVC: "h264",
    VideoCodec.HEVC: "hevc",
    VideoCodec.AV1: "libdav1d",
    VideoCodec.VP9: "vp9",
    AudioCodec.AAC: "aac",
    AudioCodec.OPUS: "opus",
    AudioCodec.FLAC: "flac",
    AudioCodec.AC3: "ac3",
    AudioCodec.EAC3: "eac3",
    AudioCodec.MP3: "mp3",
}


def wire(file: bytes, change: Callable[[int, bytes], bytes] = lambda _, body: body) -> bytes:
    """Return an FLV file's sound and picture tags as messages."""
    return b"".join(
        encoder.message(6 if kind == VIDEO_KIND else 4, kind, change(kind, body), stamp=stamp,
                        stream=1)
        for kind, stamp, body in tags_of(file)
        if kind in (VIDEO_KIND, AUDIO_KIND)
    )  # fmt: skip


def received(data: bytes, places: list[int] | None = None) -> list[Event]:
    return feed(encoder.publishing(LIMITS), cut(data, places or []))


def tracks(events: list[Event]) -> list[Track]:
    return [event.track for event in events if isinstance(event, TrackFound)]


def packets(events: list[Event]) -> list[MediaPacket]:
    return [event for event in events if isinstance(event, MediaPacket)]


def by_engine(track: Track, coded: list[MediaPacket]) -> list[bytes]:
    """Decode as the engine does."""
    if isinstance(track, VideoTrack):
        picture = TrackVideoDecoder(track, order_known=True)
        frames = [
            frame for each in coded for frame in picture.decode(each.data, each.dts, each.pts)
        ]
        return [samples(frame) for frame in (*frames, *picture.drain())]
    sound = TrackAudioDecoder(track)
    frames_of_sound = [frame for each in coded for frame in sound.decode(each.data, each.pts)]
    return [samples(frame) for frame in (*frames_of_sound, *sound.drain())]


def by_library(track: Track, coded: list[MediaPacket]) -> list[bytes]:
    """Decode with FFmpeg's decoder of the codec, given the track's configuration alone."""
    context = CodecContext.create(DECODERS[track.codec], "r")
    context.extradata = track.config or None
    context.thread_count = 1
    if isinstance(track, AudioTrack):
        context.sample_rate = track.rate  # pyright: ignore[reportAttributeAccessIssue]  # of sound
    decoded_samples: list[bytes] = []
    for each in coded:
        packet = Packet(each.data)
        packet.time_base = Fraction(1, track.scale)
        packet.dts, packet.pts = each.dts, each.pts
        decoded_samples += map(samples, context.decode(packet))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  # the stubs leave it open
    return decoded_samples + list(map(samples, context.decode(None)))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]  # as above


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_every_codec_is_taken_and_decodes_like_the_file(name: str) -> None:
    file = flv(name, None)
    events = received(wire(file))
    (track,) = tracks(events)
    assert isinstance(track, VideoTrack)
    assert (track.codec, track.width, track.height) == (CODECS[name], WIDTH, HEIGHT)
    coded = packets(events)
    expected = decoded(file, "video")
    assert len(coded) == len(expected) == 20
    assert by_engine(track, coded) == expected
    assert by_library(track, coded) == expected
    keys = [number for number, each in enumerate(coded) if each.key]
    assert keys[0] == 0
    assert len(keys) in (2, 3)


@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_of_every_codec_is_taken_and_decodes_like_the_file(name: str) -> None:
    file = flv(None, name)
    events = received(wire(file))
    (track,) = tracks(events)
    assert isinstance(track, AudioTrack)
    assert (track.codec, track.rate, track.channels) == (CODECS[name], RATE, 2)
    coded = packets(events)
    expected = decoded(file, "audio")
    assert len(coded) > 10
    assert all(each.key for each in coded)
    by_our_decoder, whole = b"".join(by_engine(track, coded)), b"".join(expected)
    assert b"".join(by_library(track, coded)) == by_our_decoder
    if track.codec is AudioCodec.MP3:  # FFmpeg's own choice is its decoder with floats
        assert 2 * len(by_our_decoder) == len(whole)
    else:
        assert by_our_decoder == whole


@pytest.mark.parametrize("size", [(64, 64), (321, 181), (1280, 720), (90, 160)])
@pytest.mark.parametrize("name", ["libx265", "libsvtav1", "libvpx-vp9"])
def test_sizes_are_those_of_the_picture_after_cropping(name: str, size: tuple[int, int]) -> None:
    width, height = size
    if name == "libsvtav1" or name == "libx265":
        width, height = width & ~1, height & ~1  # 4:2:0 of these encoders has even sides
    (track,) = tracks(received(wire(flv(name, None, width, height))))
    assert isinstance(track, VideoTrack)
    assert (track.width, track.height) == (width, height)


@pytest.mark.parametrize("name", [*PICTURES, *SOUNDS])
def test_what_is_said_twice_is_told_once(name: str) -> None:
    file = flv(name, None) if name in PICTURES else flv(None, name)
    events = received(wire(file) + wire(file))
    assert len(tracks(events)) == 1


@pytest.mark.parametrize("name", PICTURES)
def test_another_configuration_is_another_track(name: str) -> None:
    events = received(wire(flv(name, None)) + wire(flv(name, None, 320, 180)))
    assert [(t.width, t.height) for t in tracks(events) if isinstance(t, VideoTrack)] == [
        (WIDTH, HEIGHT),
        (320, 180),
    ]
    assert packets(events)[-1].track == tracks(events)[-1]


def test_one_codec_may_follow_another() -> None:
    events = received(b"".join(wire(flv(name, None)) for name in PICTURES))
    assert [track.codec for track in tracks(events)] == [CODECS[name] for name in PICTURES]
    events = received(b"".join(wire(flv(None, name)) for name in SOUNDS))
    assert [track.codec for track in tracks(events)] == [CODECS[name] for name in SOUNDS]


@pytest.mark.parametrize(("name", "number"), [("libx265", 12), ("libsvtav1", 13)])
def test_hevc_and_av1_are_taken_by_the_numbers_of_chinese_encoders(name: str, number: int) -> None:
    def legacy(_: int, body: bytes) -> bytes:
        kind, key = body[0] & 15, body[0] & 0x70
        if kind not in (0, 1, 3):
            return b""
        at_once = kind == 3 or name == "libsvtav1"
        middle = (b"\0\0\0" if kind == 0 or at_once else b"") + body[5:]
        return bytes((key | number, int(kind > 0))) + middle

    file = flv(name, None)
    events = received(wire(file, legacy))
    plain = received(wire(file))
    assert tracks(events) == tracks(plain)
    assert packets(events) == packets(plain)


def test_a_vp9_track_is_found_with_its_first_keyframe() -> None:
    file = flv("libvpx-vp9", None)
    bodies = [body for kind, _, body in tags_of(file) if kind == VIDEO_KIND]
    inter = [body for body in bodies if body[:1] == b"\xa1"]
    events = received(b"".join(map(encoder.video, inter)) + encoder.video(bodies[0]))
    assert events == []
    events = received(b"".join(map(encoder.video, inter)) + wire(file))
    assert [type(event) for event in events[:2]] == [TrackFound, MediaPacket]


def test_an_av1_track_without_a_sequence_header_in_its_configuration_is_found_in_a_keyframe() -> (
    None
):
    def bare(_: int, body: bytes) -> bytes:
        return body[:9] if body[:5] == b"\x90av01" else body

    file = flv("libsvtav1", None)
    events = received(wire(file, bare))
    (track,) = tracks(events)
    assert isinstance(track, VideoTrack)
    assert (track.width, track.height, len(track.config)) == (WIDTH, HEIGHT, 4)
    assert by_engine(track, packets(events)) == decoded(file, "video")


def test_keyframes_are_recognised_in_the_bit_stream_without_the_tags_flag() -> None:
    def forgetful(_: int, body: bytes) -> bytes:
        return bytes((body[0] & 0x8F | 0x20,)) + body[1:]  # an inter frame, it says

    for name in ("libx265", "libsvtav1", "libvpx-vp9"):
        file = flv(name, None)
        forgotten, reported = (
            packets(received(wire(file, forgetful))),
            packets(received(wire(file))),
        )
        assert [each.key for each in forgotten] == [each.key for each in reported], name


def test_keyframes_of_hevc_with_two_byte_lengths_are_recognised() -> None:
    def short(_: int, body: bytes) -> bytes:
        if body[:5] == b"\x90hvc1":
            return body[:26] + bytes((body[26] & 0xFC | 1,)) + body[27:]  # lengthSizeMinusOne
        kind, start = body[0] & 15, 8 if body[0] & 15 == 1 else 5
        if kind not in (1, 3):
            return body
        units, offset = b"", start
        while offset < len(body):
            end = offset + 4 + int.from_bytes(body[offset : offset + 4], "big")
            units, offset = units + body[offset + 2 : end], end
        return bytes((body[0] & 0x8F | 0x20,)) + body[1:start] + units

    file = flv("libx265", None)
    shortened, plain = received(wire(file, short)), received(wire(file))
    (track,) = tracks(shortened)
    assert [each.key for each in packets(shortened)] == [each.key for each in packets(plain)]
    assert by_engine(track, packets(shortened)) == decoded(file, "video")


def test_opus_without_a_header_is_stereo_or_mono_by_its_packets() -> None:
    def silent(_: int, body: bytes) -> bytes:
        return body[:5] if body[:1] == b"\x90" else body

    file = flv(None, "libopus")
    events = received(wire(file, silent))
    (track,) = tracks(events)
    assert isinstance(track, AudioTrack)
    assert (track.rate, track.channels) == (48_000, 2)
    assert len(b"".join(by_engine(track, packets(events)))) > 4 * 40_000


def test_flac_is_taken_with_its_signature_too() -> None:
    def signed(_: int, body: bytes) -> bytes:
        start = body[:5] == b"\x90fLaC"
        return body[:5] + b"fLaC\x80\x00\x00\x22" + body[5:] if start else body

    file = flv(None, "flac")
    assert received(wire(file, signed)) == received(wire(file))


def test_packets_of_another_codec_than_the_track_are_passed_over() -> None:
    hevc = [body for kind, _, body in tags_of(flv("libx265", None)) if kind == VIDEO_KIND]
    server = encoder.publishing(LIMITS)
    feed(server, [encoder.MEDIA])
    found = feed(server, [encoder.video(hevc[2]), encoder.audio(b"\x91fLaCxxxx")])
    assert [type(each) for each in found] == [MediaUnusable, MediaUnusable]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("video", b"\x90hvc1" + bytes(30), id="hvcC without an SPS"),
        pytest.param("video", b"\x90hvc1" + b"\x01" * 10, id="hvcC cut off"),
        pytest.param("video", b"\x90av01" + b"\x01\x00\x00\x00", id="av1C of another version"),
        pytest.param("video", b"\x90avc1" + b"\x01", id="avcC cut off"),
        pytest.param("video", b"\x90vp09" + bytes(70_000), id="vpcC of 70 000 bytes"),
        pytest.param("video", b"\x90av01" + bytes(70_000), id="av1C of 70 000 bytes"),
        pytest.param("audio", b"\x90mp4a\x12", id="AudioSpecificConfig cut off"),
        pytest.param("audio", b"\x90OpusOpusHead\x01", id="OpusHead cut off"),
        pytest.param("audio", b"\x90fLaCfLaC\x80", id="STREAMINFO cut off"),
        pytest.param("audio", b"\x90Opus" + bytes(70_000), id="OpusHead of 70 000 bytes"),
    ],
)
def test_a_broken_configuration_is_ignored_until_a_readable_one_comes(
    kind: str, body: bytes
) -> None:
    server = encoder.publishing(LIMITS)
    assert feed(server, [(encoder.video if kind == "video" else encoder.audio)(body)]) == []
    assert server.publishing
    assert encoder.statuses(server.outgoing()) == []
    found = feed(server, [encoder.MEDIA])
    assert [type(each) for each in found] == [
        TrackFound, TrackFound, MediaPacket, MediaPacket, MediaPacket,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param("libsvtav1", b"\x91av01" + b"\x7a\x00" * (4 << 20), id="empty OBUs"),
        pytest.param(
            "libx265", b"\x93hvc1" + b"\0\0\0\2\x4e\1" * (1 << 20), id="empty SEI messages"
        ),
        pytest.param("libx265", b"\x93hvc1" + bytes(8 << 20), id="empty NAL units"),
        pytest.param("libx264", b"\x96\x11avc1" + b"\1\0\0\0" * (2 << 20), id="empty tracks"),
        pytest.param("libx264", b"\x97" + b"\0\0\7" * (2 << 20), id="modifiers"),
    ],
)
def test_a_tag_of_millions_of_parts_is_looked_at_cheaply(name: str, body: bytes) -> None:
    reader, events = FlvReader(), list[Event]()
    for kind, stamp, tag_body in tags_of(flv(name, None)):
        if kind == VIDEO_KIND:
            reader.read_video(stamp, memoryview(tag_body), events)
    with counted_calls() as count:
        for stamp in range(10):
            reader.read_video(1_000 + stamp, memoryview(body), events)
    assert count.calls < 20_000  # not one for each part


@pytest.mark.parametrize("picture", ["libx265", "libsvtav1", "libvpx-vp9"])
@pytest.mark.parametrize("sound", ["libopus", "flac", "eac3"])
def test_byte_by_byte_it_is_the_same(picture: str, sound: str) -> None:
    data = wire(flv(picture, sound))[:12_000]
    assert received(data, list(range(len(data)))) == received(data)


@given(
    st.sampled_from(list(PICTURES)),
    st.sampled_from(list(SOUNDS)),
    st.lists(st.integers(0, 12_000), max_size=20),
)
def test_cuts_change_nothing(picture: str, sound: str, places: list[int]) -> None:
    data = wire(flv(picture, sound))
    assert received(data, places) == received(data)


def test_the_fourccs_are_those_of_the_specification() -> None:
    assert sorted(VIDEO_FOURCCS) == [b"av01", b"avc1", b"hvc1", b"vp09"]
    assert sorted(AUDIO_FOURCCS) == [b".mp3", b"Opus", b"ac-3", b"ec-3", b"fLaC", b"mp4a"]
