"""A session as its transport sees it: events, leave, faults, time, cuts and garbage."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.rtmp.dialogue import NEXT, State
from ingest.rtmp.errors import (
    RtmpError,
    TimedOut,
    UnsupportedMedia,
)
from ingest.rtmp.events import (
    Connected,
    Event,
    Goodbye,
    Metadata,
    PacketReceived,
    PublishRequested,
    TrackFound,
)
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session
from media.loop_lag import LoopLag
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.rtmp_peer import (
    BEFORE,
    GOODBYE,
    HANDSHAKE,
    LIMITS,
    MEDIA,
    META,
    NAME,
    command,
    connect,
    cut,
    feed,
    publish,
    session,
)

WHOLE = encoder.opening() + META + MEDIA + command("FCUnpublish", 6.0, None, NAME)


def test_a_denial_is_told_on_the_published_message_stream_and_ends_the_session() -> None:
    here = session()
    feed(here, [encoder.opening()], allow=False)
    here.outgoing()
    here.deny("NetStream.Publish.BadName", "no stream has this key")
    assert encoder.statuses(here.outgoing()) == [(1, "error", "NetStream.Publish.BadName")]
    assert not here.publishing
    assert here.receive(MEDIA, 1.0) == []
    here.tick(1000.0)
    here.allow()
    assert here.outgoing() == b""


def test_a_publisher_can_be_taken_off() -> None:
    here = encoder.publishing()
    here.close_status("NetStream.Unpublish.Success", "taken over")
    assert encoder.statuses(here.outgoing()) == [(1, "status", "NetStream.Unpublish.Success")]
    assert not here.publishing


def test_media_become_tracks_and_packets() -> None:
    here = encoder.publishing()
    events = feed(here, [MEDIA])
    assert [type(event) for event in events] == [TrackFound] * 2 + [PacketReceived] * 3
    times = [(e.packet.dts, e.packet.pts) for e in events if isinstance(e, PacketReceived)]
    assert times == [(0, 0), (23, 23), (33, 99)]


def test_media_that_come_while_the_key_is_looked_up_come_out_after_leave() -> None:
    here = session()
    events = feed(here, [encoder.opening() + MEDIA[:1500]], allow=False)
    assert isinstance(events[-1], PublishRequested)
    here.allow()
    events = feed(here, [MEDIA[1500:]])
    assert [type(event) for event in events] == [TrackFound] * 2 + [PacketReceived] * 3


def test_media_of_a_denied_or_withdrawn_wish_never_come_out() -> None:
    here = session()
    events = feed(here, [encoder.opening() + MEDIA + GOODBYE], allow=False)
    assert isinstance(events[-1], Goodbye)
    here.allow()
    assert not here.publishing
    assert feed(here, [META]) == []


def test_identical_metadata_are_told_once() -> None:
    here = encoder.publishing()
    other = META.replace(b"width", b"depth")
    events = feed(here, [META, META, META, other])
    assert events == [Metadata({"width": 160.0}), Metadata({"depth": 160.0})]


def test_an_aggregate_is_taken_apart() -> None:
    here = encoder.publishing()
    feed(here, [MEDIA])
    sound = encoder.audio_body(b"abc")
    tag = b"\x08" + len(sound).to_bytes(3, "big") + bytes(7) + sound + bytes(4)
    body = encoder.message(4, MessageType.AGGREGATE, tag, stamp=60, stream=1)
    (event,) = feed(here, [body])
    assert isinstance(event, PacketReceived)
    assert (event.packet.dts, event.packet.data) == (60, b"abc")


def test_empty_media_keep_the_stream_alive() -> None:
    here = encoder.publishing()
    assert feed(here, [encoder.audio(b""), encoder.video(b""), MEDIA]) != []
    assert here.publishing


def test_unknown_commands_and_messages_are_passed_over() -> None:
    here = encoder.publishing()
    feed(here, [command("_checkbw", 9.0, None), encoder.whole(3, 99, b"abc")])
    assert here.counters.dropped == 2
    assert here.publishing


def test_a_ping_is_answered_with_its_own_bytes() -> None:
    here = encoder.publishing()
    feed(here, [encoder.whole(2, MessageType.USER_CONTROL, b"\0\x06\x01\x02\x03\x04")])
    (pong,) = encoder.answers(here.outgoing())
    assert (pong.kind, bytes(pong.body)) == (4, b"\0\x07\x01\x02\x03\x04")


def test_bytes_are_acknowledged_at_half_of_the_peers_window() -> None:
    here = encoder.publishing()
    window = encoder.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 20_000))
    feed(here, [window])
    feed(here, [encoder.audio(encoder.audio_body(bytes(8000)))])
    first = here.outgoing()
    feed(here, [encoder.audio(encoder.audio_body(bytes(8000)))])
    answers = encoder.answers(first + here.outgoing())
    assert [answer.kind for answer in answers] == [3]
    (sequence,) = struct.unpack(">I", answers[0].body)
    assert 10_000 <= sequence <= here.counters.bytes_in


def test_a_bandwidth_wish_is_answered_with_our_window() -> None:
    here = encoder.publishing()
    wish = encoder.whole(2, MessageType.PEER_BANDWIDTH, struct.pack(">IB", 5_000_000, 2))
    feed(here, [wish])
    (answer,) = encoder.answers(here.outgoing())
    assert (answer.kind, bytes(answer.body)) == (5, struct.pack(">I", 2_500_000))


def test_counters_count() -> None:
    here = session()
    feed(here, [encoder.opening(), MEDIA])
    written = here.outgoing()
    counters = here.counters
    assert counters.bytes_in == len(encoder.opening()) + len(MEDIA)
    assert counters.bytes_out == len(written)
    assert (counters.messages, counters.dropped) == (10, 0)


COMMANDS = sorted({name for _, name in NEXT})


def test_another_codec_is_refused_with_a_status_that_names_it() -> None:
    here = encoder.publishing()
    with pytest.raises(UnsupportedMedia, match="VVC"):
        feed(here, [encoder.video(b"\x90vvc1" + bytes(20))])
    written = here.outgoing()
    assert encoder.statuses(written) == [(1, "error", "NetStream.Publish.Rejected")]
    assert b"VVC" in written


def test_events_before_a_fault_come_out_and_the_fault_is_raised_once_after_them() -> None:
    here = encoder.publishing()
    events = here.receive(MEDIA + encoder.whole(2, MessageType.SET_CHUNK_SIZE, bytes(4)), 0.0)
    assert len(events) == 5
    assert not here.publishing
    with pytest.raises(RtmpError):
        here.receive(b"", 0.0)
    assert here.receive(MEDIA, 0.0) == []
    here.tick(1000.0)


@pytest.mark.parametrize(
    ("data", "seconds", "what"),
    [
        pytest.param(HANDSHAKE[:2000], 5.0, "handshake", id="half a handshake"),
        pytest.param(HANDSHAKE, 15.0, "publish", id="nothing after the handshake"),
        pytest.param(HANDSHAKE + connect(), 15.0, "publish", id="nothing after connect"),
        pytest.param(encoder.opening(), 20.0, "byte", id="nothing after leave"),
        pytest.param(encoder.opening() + META, 20.0, "byte", id="metadata alone"),
    ],
)
def test_deadlines_pass(data: bytes, seconds: float, what: str) -> None:
    here = session()
    feed(here, [data])
    here.tick(seconds - 0.01)
    with pytest.raises(TimedOut) as caught:
        here.tick(seconds)
    assert caught.value.what == what
    here.tick(seconds + 1)


def test_a_slow_handshake_is_not_saved_by_its_bytes() -> None:
    here = session()
    for second in range(5):
        here.receive(b"\x03", float(second))
        here.tick(float(second))
    with pytest.raises(TimedOut, match="handshake"):
        here.tick(5.0)


def test_the_first_packet_is_waited_for_then_the_next_ones() -> None:
    here = encoder.publishing()
    here.receive(META, 15.0)
    with pytest.raises(TimedOut, match="first packet"):
        here.tick(20.0)
    here = encoder.publishing()
    here.receive(MEDIA, 3.0)
    here.receive(META, 12.0)
    here.tick(12.9)
    with pytest.raises(TimedOut, match="no packet for 10 s"):
        here.tick(13.0)


def test_a_stopped_encoder_has_its_time_to_publish_again() -> None:
    here = encoder.publishing()
    here.receive(MEDIA, 1.0)
    here.receive(GOODBYE, 100.0)
    here.tick(114.9)
    with pytest.raises(TimedOut, match="publish"):
        here.tick(115.0)


def test_who_waits_for_our_answer_has_no_deadline_but_silence() -> None:
    here = session()
    feed(here, [encoder.opening()], allow=False)
    here.tick(19.9)
    with pytest.raises(TimedOut, match="byte"):
        here.tick(20.0)


def pings(here: Session) -> list[bytes]:
    answers = encoder.answers(here.outgoing())
    return [bytes(answer.body) for answer in answers if answer.kind == MessageType.USER_CONTROL]


def test_a_connected_peer_that_is_quiet_is_pinged_and_one_that_sends_is_not() -> None:
    here = encoder.publishing(Limits(idle_media_seconds=100.0, silence_seconds=40.0))
    for tenth in range(600):
        here.receive(MEDIA, tenth / 10)
        here.tick(tenth / 10)
    assert pings(here) == []
    for second in range(60, 91):
        here.tick(float(second))
    # The last byte came at 59.9 s.
    assert pings(here) == [struct.pack(">HI", 6, at * 1000) for at in (70, 80, 90)]


ASKED_AT = len(encoder.opening())


def found_in(places: list[int]) -> tuple[list[Event], bytes]:
    here = session()
    events = feed(here, cut(WHOLE, [ASKED_AT, *places]))
    return events, here.outgoing()


def test_byte_by_byte_a_session_is_the_same() -> None:
    assert found_in(list(range(len(WHOLE)))) == found_in([])


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20))
@settings(max_examples=60)
def test_cuts_change_nothing(places: list[int]) -> None:
    assert found_in(places) == found_in([])


def test_the_whole_session_says_what_it_should() -> None:
    events, _ = found_in([])
    assert [type(event) for event in events] == [
        Connected, PublishRequested, Metadata, TrackFound, TrackFound,
        PacketReceived, PacketReceived, PacketReceived, Goodbye,
    ]  # fmt: skip


KINDS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 15, 17, 18, 20, 22, 99])


NAMES = st.sampled_from([*COMMANDS, "play", "_checkbw"])


def some_message(kind: int, body: bytes) -> bytes:
    return encoder.whole(5, kind, body, stream=1)


def some_command(name: str) -> bytes:
    return command(name, 3.0, None, NAME, stream=1)


SOME = st.one_of(
    st.binary(max_size=100),
    st.builds(some_message, KINDS, st.binary(max_size=60)),
    st.builds(some_command, NAMES),
    st.sampled_from([MEDIA, META, GOODBYE, connect(), publish()]),
)


@given(st.sampled_from(list(State)), st.lists(SOME, max_size=10))
@settings(max_examples=250)
def test_any_bytes_give_events_or_an_error_within_the_bounds(
    state: State, pieces: list[bytes]
) -> None:
    here = session(Limits(unfinished_bytes=100_000))
    feed(here, [BEFORE[state]], allow=state is State.PUBLISHING)
    here.outgoing()
    events: list[Event] = []
    try:
        events += feed(here, pieces)
        here.tick(1.0)
    except RtmpError:
        assert here.receive(b"more", 1.0) == []
    size = sum(map(len, pieces))
    packets = sum(len(e.packet.data) for e in events if isinstance(e, PacketReceived))
    assert packets <= size
    # A command of some twenty bytes is answered with less than three hundred.
    assert len(here.outgoing()) <= 1000 + 15 * size


@pytest.mark.parametrize(
    ("sent", "seconds", "awaited"),
    [
        pytest.param([], LIMITS.handshake_seconds, "handshake", id="handshake"),
        pytest.param([HANDSHAKE], LIMITS.publish_seconds, "publish", id="publish"),
        pytest.param([encoder.opening(), MEDIA], LIMITS.idle_media_seconds, "packet", id="media"),
    ],
)
def test_a_deadline_is_extended_by_the_lag_of_the_loop(
    sent: list[bytes], seconds: float, awaited: str
) -> None:
    lag = LoopLag()
    lag.beat(0.0)
    here = Session(limits=LIMITS, now=0.0, entropy=encoder.ENTROPY, lag=lag)
    feed(here, sent)
    held_up = seconds + 5
    here.tick(held_up)  # before what came meanwhile is read
    lag.beat(held_up)
    here.tick(held_up)
    for turn in range(1, round(10 * seconds)):
        lag.beat(held_up + turn / 10)
    here.tick(held_up + seconds - 0.2)
    with pytest.raises(TimedOut, match=awaited):
        here.tick(held_up + seconds)
