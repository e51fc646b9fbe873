"""Recorded sessions of a current ffmpeg with enhanced RTMP: see captures/README.md."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.events import Event, Goodbye, PublishRequested, TrackFound
from ingest.rtmp.session import Session
from media.packet import MediaPacket
from media.track import AudioTrack, VideoTrack
from tests.ingest.rtmp.test_codecs import by_engine, packets, tracks
from tests.ingest.rtmp.test_session_captures import asked_at, capture, replay
from tests.support.ingest import rtmp_peer as encoder

# Capture -> codec and size of the picture, codec, rate and channels of the sound, packets of each.
SENT = {
    "ffmpeg_hevc_opus": (("hvc1", 160, 90, 30), ("Opus", 48_000, 1, 101)),
    "ffmpeg_av1_flac": (("av01", 160, 90, 30), ("fLaC", 48_000, 1, 94)),
    "ffmpeg_vp9_ac3": (("vp09", 160, 90, 30), ("ac-3", 48_000, 2, 63)),
    "ffmpeg_hevc_eac3": (("hvc1", 160, 90, 15), ("ec-3", 48_000, 2, 32)),
    "ffmpeg_avc_mp3": (("avc1", 160, 90, 15), (".mp3", 48_000, 2, 43)),
    "ffmpeg_tracks": (("avc1", 160, 90, 15), ("mp4a", 48_000, 1, 48)),
}


def read(name: str) -> tuple[list[Event], Session]:
    data = capture(name)
    return replay(data, [asked_at(data)])


def of(kind: type, events: list[Event]) -> list[MediaPacket]:
    return [each for each in packets(events) if isinstance(each.track, kind)]


@pytest.mark.parametrize("name", SENT)
def test_its_tracks_are_found_and_its_packets_are_counted(name: str) -> None:
    events, server = read(name)
    picture, sound = SENT[name]
    first = sorted(tracks(events), key=lambda track: isinstance(track, AudioTrack))
    assert len(first) == 2
    video, audio = first
    assert isinstance(video, VideoTrack)
    assert isinstance(audio, AudioTrack)
    coded, sounds = of(VideoTrack, events), of(AudioTrack, events)
    assert (video.codec.value, video.width, video.height, len(coded)) == picture
    assert (audio.codec.value, audio.rate, audio.channels, len(sounds)) == sound
    assert coded[0].key
    assert isinstance(events[-1], Goodbye)
    assert encoder.statuses(server.outgoing()) == [(1, "status", "NetStream.Publish.Start")]


@pytest.mark.parametrize("name", SENT)
def test_its_packets_decode(name: str) -> None:
    events, _ = read(name)
    for track in tracks(events):
        coded = of(type(track), events)
        decoded = by_engine(track, coded)
        assert len(decoded) >= len(coded) - 1
        if isinstance(track, VideoTrack):
            assert {len(each) for each in decoded} == {160 * 90 * 3 // 2}


def test_its_list_of_codecs_is_answered_with_ours() -> None:
    data = capture("ffmpeg_hevc_opus")
    server = encoder.session()
    server.receive(data[: asked_at(data)], 0.0)
    (answer, *_) = encoder.answered_commands(server.outgoing()[3073:])
    match answer[1]:
        case [_, _, _, {"fourCcList": list(codecs), "videoFourCcInfoMap": dict(video),
                        "audioFourCcInfoMap": dict(audio), "capsEx": caps}]:  # fmt: skip
            assert codecs == [*video, *audio]
            assert {"hvc1", "Opus"} <= {*video, *audio}
            assert all(can == 1.0 for can in (*video.values(), *audio.values()))  # CanDecode
            assert caps == 6.0  # Multitrack and ModEx, and no Reconnect
        case other:
            pytest.fail(f"{other}")


@pytest.mark.parametrize("name", SENT)
def test_byte_by_byte_it_is_the_same(name: str) -> None:
    data = capture(name)
    expected, _ = read(name)
    events, _ = replay(data, list(range(len(data))))
    assert events == expected


@functools.cache
def expected(name: str) -> tuple[int, list[Event]]:
    return asked_at(capture(name)), read(name)[0]


@given(st.sampled_from(list(SENT)), st.lists(st.integers(0, 61_000), max_size=30))
def test_cuts_change_nothing(name: str, places: list[int]) -> None:
    asked, events = expected(name)
    assert replay(capture(name), [asked, *places])[0] == events


def test_events_are_those_that_are_counted() -> None:
    kinds = {type(event) for name in SENT for event in expected(name)[1]}
    assert kinds >= {PublishRequested, TrackFound, MediaPacket, Goodbye}
