"""Recorded sessions of real encoders: see captures/README.md."""

import contextlib
import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.errors import RtmpError
from ingest.rtmp.events import (
    Event,
    Goodbye,
    PictureAnnounced,
    PublishRequested,
    TrackFound,
)
from ingest.rtmp.session import Session
from media.packet import MediaPacket
from media.track import VideoTrack
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.rtmp_peer import cut, feed, session

CAPTURES = Path(__file__).parent / "captures"
Coded = tuple[str, int, int, bytes]  # kind, dts, pts, data


def flv(name: str) -> list[Coded]:
    """Read the packets of an FLV file, by the file format's own rules (E.3, E.4)."""
    data = (CAPTURES / name).read_bytes()
    at = 13
    packets: list[Coded] = []
    while at + 11 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        stamp = data[at + 7] << 24 | int.from_bytes(data[at + 4 : at + 7], "big")
        body = data[at + 11 : at + 11 + size]
        if data[at] == 9 and body[1] == 1:
            offset = int.from_bytes(body[2:5], "big", signed=True)
            packets.append(("video", stamp, stamp + offset, body[5:]))
        elif data[at] == 8 and body[1] == 1:
            packets.append(("audio", stamp, stamp, body[2:]))
        at += 15 + size
    return packets


def capture(name: str) -> bytes:
    return (CAPTURES / f"{name}.bin").read_bytes()


@functools.cache  # it takes 30 ms, and many tests need the same results
def asked_at(data: bytes) -> int:
    """Return the number of bytes up to the publish request."""
    server = session()
    for index in range(len(data)):
        events = server.receive(data[index : index + 1], 0.0)
        if any(isinstance(event, PublishRequested) for event in events):
            return index + 1
    raise AssertionError("nobody asked to publish")


def replay(data: bytes, places: list[int]) -> tuple[list[Event], Session]:
    server = session()
    return feed(server, cut(data, places)), server


def coded(events: list[Event]) -> list[Coded]:
    return [
        (
            "video" if isinstance(event.track, VideoTrack) else "audio",
            event.dts,
            event.pts,
            event.data,
        )
        for event in events
        if isinstance(event, MediaPacket)
    ]


def of(kind: str, packets: list[Coded]) -> list[bytes]:
    return [data for of_kind, _, _, data in packets if of_kind == kind]


NAMES = ["ffmpeg", "ffmpeg_extended", "rtmp2sink", "librtmp", "obs"]
KEYS = {
    "ffmpeg": "made-up-key-for-ffmpeg",
    "ffmpeg_extended": "made-up-key",
    "rtmp2sink": "made-up-key-for-rtmp2sink",
    "librtmp": "made-up-key-for-librtmp",
    "obs": "made-up-key-for-obs",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_real_encoder_is_understood(name: str) -> None:
    data = capture(name)
    events, server = replay(data, [asked_at(data)])
    kinds = [type(event) for event in events]
    request = next(event for event in events if isinstance(event, PublishRequested))
    assert (request.application, request.name) == ("live", KEYS[name])
    assert kinds.count(TrackFound) == 2
    assert kinds.index(PictureAnnounced) < kinds.index(TrackFound)
    assert kinds.count(Goodbye) == 1
    assert kinds[-1] is Goodbye
    assert encoder.statuses(server.outgoing()) == [(1, "status", "NetStream.Publish.Start")]
    assert server.counters.dropped <= 1  # the end of sequence that ffmpeg and GStreamer send


@pytest.mark.parametrize("name", ["ffmpeg", "ffmpeg_extended", "rtmp2sink", "librtmp"])
def test_its_packets_are_those_of_the_file_that_was_sent(name: str) -> None:
    source = flv("source.flv")
    data = capture(name)
    packets = coded(replay(data, [asked_at(data)])[0])
    assert len(packets) == len(source) == 152
    for kind in ("video", "audio"):
        assert of(kind, packets) == of(kind, source)


@pytest.mark.parametrize(("name", "shift"), [("ffmpeg", 0), ("ffmpeg_extended", 19_999_890)])
def test_ffmpeg_keeps_the_files_times(name: str, shift: int) -> None:
    data = capture(name)
    packets = coded(replay(data, [asked_at(data)])[0])
    moved = [(kind, dts + shift, pts + shift, coded) for kind, dts, pts, coded in flv("source.flv")]
    assert packets == moved


def test_obs_packets_are_those_that_it_recorded_meanwhile() -> None:
    recorded = flv("obs.flv")
    data = capture("obs")
    packets = coded(replay(data, [asked_at(data)])[0])
    for kind, least in (("video", 40), ("audio", 180)):
        received = of(kind, packets)
        first = of(kind, recorded).index(received[0])
        assert len(received) >= least
        assert received == of(kind, recorded)[first : first + len(received)]


def test_obs_sets_its_chunk_size_before_it_connects() -> None:
    # Type 1 on chunk stream 2 with 4096, right after C2: the reason for this capture.
    assert capture("obs")[3073:][:16] == bytes.fromhex("02 000000 000004 01 00000000 00001000")


@pytest.mark.parametrize("name", NAMES)
def test_byte_by_byte_it_is_the_same(name: str) -> None:
    data = capture(name)
    expected, _ = replay(data, [asked_at(data)])
    events, _ = replay(data, list(range(len(data))))
    assert events == expected


@given(st.sampled_from(NAMES), st.lists(st.integers(0, 66_000), max_size=30))
def test_cuts_change_nothing(name: str, places: list[int]) -> None:
    data, asked, events = expected(name)
    assert replay(data, [asked, *places])[0] == events


@functools.cache
def expected(name: str) -> tuple[bytes, int, list[Event]]:
    data = capture(name)
    asked = asked_at(data)
    return data, asked, replay(data, [asked])[0]


@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(3073, 66_000), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_damaged_capture_gives_events_or_an_error(
    name: str, damage: list[tuple[int, int]]
) -> None:
    data, asked, _ = expected(name)
    damaged = bytearray(data)
    for place, value in damage:
        damaged[min(place, len(damaged) - 1)] = value
    server = session()
    size = 0
    with contextlib.suppress(RtmpError):
        for piece in cut(bytes(damaged), [asked, *range(0, len(data), 4096)]):
            size += sum(len(item[3]) for item in coded(feed(server, [piece])))
    assert size <= len(data)
