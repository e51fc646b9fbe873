"""A session as its transport uses it: events, permissions, faults, deadlines, cuts and garbage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import amf0
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
    MediaUnusable,
    PictureAnnounced,
    PublishRequested,
    TrackFound,
)
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session
from media.loop_lag import LoopLag
from media.packet import MediaPacket
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
    server = session()
    feed(server, [encoder.opening()], allow=False)
    server.outgoing()
    server.close_status("NetStream.Publish.BadName", "no stream has this key")
    assert encoder.statuses(server.outgoing()) == [(1, "error", "NetStream.Publish.BadName")]
    assert not server.publishing
    assert server.receive(MEDIA, 1.0) == []
    server.tick(1000.0)
    server.allow()
    assert server.outgoing() == b""


def test_a_publisher_can_be_disconnected_with_a_status() -> None:
    server = encoder.publishing()
    server.close_status("NetStream.Unpublish.Success", "taken over")
    assert encoder.statuses(server.outgoing()) == [(1, "status", "NetStream.Unpublish.Success")]
    assert not server.publishing


def test_media_become_tracks_and_packets() -> None:
    server = encoder.publishing()
    events = feed(server, [MEDIA])
    assert [type(event) for event in events] == [TrackFound] * 2 + [MediaPacket] * 3
    times = [(e.dts, e.pts) for e in events if isinstance(e, MediaPacket)]
    assert times == [(0, 0), (23, 23), (33, 99)]


def test_media_received_while_the_key_is_looked_up_are_delivered_afterwards() -> None:
    server = session()
    events = feed(server, [encoder.opening() + MEDIA[:1500]], allow=False)
    assert isinstance(events[-1], PublishRequested)
    server.allow()
    events = feed(server, [MEDIA[1500:]])
    assert [type(event) for event in events] == [TrackFound] * 2 + [MediaPacket] * 3


def test_media_of_a_withdrawn_publish_are_never_delivered() -> None:
    server = session()
    events = feed(server, [encoder.opening() + MEDIA + GOODBYE], allow=False)
    assert isinstance(events[-1], Goodbye)
    server.allow()
    assert not server.publishing
    assert feed(server, [META, MEDIA]) == []


def metadata(facts: dict[str, amf0.Amf]) -> bytes:
    return encoder.message(4, MessageType.DATA, amf0.encode("onMetaData", facts), stream=1)


PICTURED = metadata({"videocodecid": 7.0})


@pytest.mark.parametrize("before", [b"", META, MEDIA])
def test_a_picture_is_announced_once_for_a_publish(before: bytes) -> None:
    server = encoder.publishing()
    events = feed(server, [before + PICTURED + PICTURED + META + PICTURED])
    assert events.count(PictureAnnounced()) == 1
    feed(server, [GOODBYE, command("createStream", 8.0, None) + publish()])
    assert feed(server, [PICTURED]) == [PictureAnnounced()]


def test_a_picture_is_announced_while_the_key_is_looked_up_and_in_an_aggregate() -> None:
    server = session()
    feed(server, [encoder.opening() + PICTURED], allow=False)
    server.allow()
    assert feed(server, [MEDIA])[0] == PictureAnnounced()
    server = encoder.publishing()
    data = amf0.encode("onMetaData", {"videocodecid": 7.0})
    tag = b"\x12" + len(data).to_bytes(3, "big") + bytes(7) + data + bytes(4)
    assert feed(server, [encoder.message(4, MessageType.AGGREGATE, tag, stream=1)]) == [
        PictureAnnounced()
    ]


def test_data_are_read_for_a_picture_at_the_beginning_only() -> None:
    server = encoder.publishing()
    assert feed(server, [META * 15 + PICTURED]) == [PictureAnnounced()]
    server = encoder.publishing()
    assert feed(server, [META * 16 + PICTURED]) == []


def test_metadata_have_no_other_effect() -> None:
    server = encoder.publishing()
    other = META.replace(b"width", b"depth")
    assert feed(server, [META, META, META, other]) == []
    assert server.publishing


def test_an_encoder_that_sends_much_data_can_still_end_its_stream() -> None:
    # Captions or onFI: one message for each picture, each different.
    server = encoder.publishing()
    now = 0.0
    for frame in range(600):
        now = frame / 30
        body = amf0.encode("onTextData", {"text": f"caption {frame}"})
        server.receive(MEDIA + encoder.message(4, MessageType.DATA, body, stream=1), now)
    assert server.receive(GOODBYE, now) == [Goodbye()]


def test_pings_while_publishing_do_not_count_as_commands_before_it() -> None:
    server = encoder.publishing()
    ping = encoder.whole(2, MessageType.USER_CONTROL, b"\0\x06\0\0\0\0")
    for turn in range(100):
        server.receive(MEDIA + ping, 5.0 * turn)
    assert feed(server, [GOODBYE], now=500.0) == [Goodbye()]
    feed(server, [command("deleteStream", 7.0, None, 1.0)], now=500.0)
    again = command("createStream", 8.0, None) + publish()
    assert isinstance(feed(server, [again], now=501.0)[-1], PublishRequested)


def test_an_aggregate_is_split_into_packets() -> None:
    server = encoder.publishing()
    feed(server, [MEDIA])
    sound = encoder.audio_body(b"abc")
    tag = b"\x08" + len(sound).to_bytes(3, "big") + bytes(7) + sound + bytes(4)
    body = encoder.message(4, MessageType.AGGREGATE, tag, stamp=60, stream=1)
    (event,) = feed(server, [body])
    assert isinstance(event, MediaPacket)
    assert (event.dts, event.data) == (60, b"abc")


def test_empty_media_keep_the_stream_alive() -> None:
    server = encoder.publishing()
    assert feed(server, [encoder.audio(b""), encoder.video(b""), MEDIA]) != []
    assert server.publishing


def test_unknown_commands_and_messages_are_passed_over() -> None:
    server = encoder.publishing()
    feed(server, [command("_checkbw", 9.0, None), encoder.whole(3, 99, b"abc")])
    assert server.counters.dropped == 2
    assert server.publishing


def test_a_ping_is_answered_with_its_own_bytes() -> None:
    server = encoder.publishing()
    feed(server, [encoder.whole(2, MessageType.USER_CONTROL, b"\0\x06\x01\x02\x03\x04")])
    (pong,) = encoder.answers(server.outgoing())
    assert (pong.kind, bytes(pong.body)) == (4, b"\0\x07\x01\x02\x03\x04")


def test_bytes_are_acknowledged_at_half_of_the_peers_window() -> None:
    server = encoder.publishing()
    window = encoder.whole(2, MessageType.WINDOW_SIZE, struct.pack(">I", 20_000))
    feed(server, [window])
    feed(server, [encoder.audio(encoder.audio_body(bytes(8000)))])
    first = server.outgoing()
    feed(server, [encoder.audio(encoder.audio_body(bytes(8000)))])
    answers = encoder.answers(first + server.outgoing())
    assert [answer.kind for answer in answers] == [3]
    (sequence,) = struct.unpack(">I", answers[0].body)
    assert 10_000 <= sequence <= server.counters.bytes_in


def test_a_peer_bandwidth_message_is_answered_with_our_window() -> None:
    server = encoder.publishing()
    wish = encoder.whole(2, MessageType.PEER_BANDWIDTH, struct.pack(">IB", 5_000_000, 2))
    feed(server, [wish])
    (answer,) = encoder.answers(server.outgoing())
    assert (answer.kind, bytes(answer.body)) == (5, struct.pack(">I", 2_500_000))


def test_counters_count() -> None:
    server = session()
    feed(server, [encoder.opening(), MEDIA])
    written = server.outgoing()
    counters = server.counters
    assert counters.bytes_in == len(encoder.opening()) + len(MEDIA)
    assert counters.bytes_out == len(written)
    assert (counters.messages, counters.dropped) == (10, 0)


COMMANDS = sorted({name for _, name in NEXT})


def test_another_codec_is_refused_with_a_status_that_names_it() -> None:
    server = encoder.publishing()
    with pytest.raises(UnsupportedMedia, match="VVC"):
        feed(server, [encoder.video(b"\x90vvc1" + bytes(20))])
    written = server.outgoing()
    assert encoder.statuses(written) == [(1, "error", "NetStream.Publish.Rejected")]
    assert b"VVC" in written


def test_events_before_a_fault_are_delivered_and_the_fault_is_raised_once_afterwards() -> None:
    server = encoder.publishing()
    events = server.receive(MEDIA + encoder.whole(2, MessageType.SET_CHUNK_SIZE, bytes(4)), 0.0)
    assert len(events) == 5
    assert not server.publishing
    with pytest.raises(RtmpError):
        server.receive(b"", 0.0)
    assert server.receive(MEDIA, 0.0) == []
    server.tick(1000.0)


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
    server = session()
    feed(server, [data])
    server.tick(seconds - 0.01)
    with pytest.raises(TimedOut) as caught:
        server.tick(seconds)
    assert caught.value.what == what
    server.tick(seconds + 1)


def test_a_slow_handshake_is_not_saved_by_its_bytes() -> None:
    server = session()
    for second in range(5):
        server.receive(b"\x03", float(second))
        server.tick(float(second))
    with pytest.raises(TimedOut, match="handshake"):
        server.tick(5.0)


def test_an_encoder_whose_media_cannot_be_used_stays_connected() -> None:
    """It would come back at once, with the same."""
    server = encoder.publishing()
    for second in range(60):
        (told,) = feed(server, [encoder.audio(encoder.audio_body(b"x"))], now=float(second))
        assert isinstance(told, MediaUnusable)
        server.tick(float(second))
    server.tick(68.9)
    with pytest.raises(TimedOut, match="packet"):
        server.tick(69.0)


def test_the_first_packet_and_later_ones_have_different_deadlines() -> None:
    server = encoder.publishing()
    server.receive(META, 15.0)
    with pytest.raises(TimedOut, match="first packet"):
        server.tick(20.0)
    server = encoder.publishing()
    server.receive(MEDIA, 3.0)
    server.receive(META, 12.0)
    server.tick(12.9)
    with pytest.raises(TimedOut, match="no packet for 10 s"):
        server.tick(13.0)


def test_a_stopped_encoder_gets_the_full_time_to_publish_again() -> None:
    server = encoder.publishing()
    server.receive(MEDIA, 1.0)
    server.receive(GOODBYE, 100.0)
    server.tick(114.9)
    with pytest.raises(TimedOut, match="publish"):
        server.tick(115.0)


def test_a_peer_that_waits_for_our_answer_has_only_the_deadline_of_silence() -> None:
    server = session()
    feed(server, [encoder.opening()], allow=False)
    server.tick(19.9)
    with pytest.raises(TimedOut, match="byte"):
        server.tick(20.0)


def pings(server: Session) -> list[bytes]:
    answers = encoder.answers(server.outgoing())
    return [bytes(answer.body) for answer in answers if answer.kind == MessageType.USER_CONTROL]


def test_a_connected_peer_that_is_quiet_is_pinged_and_one_that_sends_is_not() -> None:
    server = encoder.publishing(Limits(idle_media_seconds=100.0, silence_seconds=40.0))
    for tenth in range(600):
        server.receive(MEDIA, tenth / 10)
        server.tick(tenth / 10)
    assert pings(server) == []
    for second in range(60, 91):
        server.tick(float(second))
    # The last byte came at 59.9 s.
    assert pings(server) == [struct.pack(">HI", 6, at * 1000) for at in (70, 80, 90)]


ASKED_AT = len(encoder.opening())


def found_in(places: list[int]) -> tuple[list[Event], bytes]:
    server = session()
    events = feed(server, cut(WHOLE, [ASKED_AT, *places]))
    return events, server.outgoing()


def test_byte_by_byte_a_session_is_the_same() -> None:
    assert found_in(list(range(len(WHOLE)))) == found_in([])


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20))
def test_cuts_change_nothing(places: list[int]) -> None:
    assert found_in(places) == found_in([])


def test_a_whole_session_gives_the_expected_events() -> None:
    events, _ = found_in([])
    assert [type(event) for event in events] == [
        Connected, PublishRequested, TrackFound, TrackFound,
        MediaPacket, MediaPacket, MediaPacket, Goodbye,
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
def test_any_bytes_give_events_or_an_error_within_the_bounds(
    state: State, pieces: list[bytes]
) -> None:
    server = session(Limits(unfinished_bytes=100_000))
    feed(server, [BEFORE[state]], allow=state is State.PUBLISHING)
    server.outgoing()
    events: list[Event] = []
    try:
        events += feed(server, pieces)
        server.tick(1.0)
    except RtmpError:
        assert server.receive(b"more", 1.0) == []
    size = sum(map(len, pieces))
    packets = sum(len(e.data) for e in events if isinstance(e, MediaPacket))
    assert packets <= size
    # A command of some twenty bytes is answered with less than three hundred.
    assert len(server.outgoing()) <= 1000 + 15 * size


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
    server = Session(limits=LIMITS, now=0.0, entropy=encoder.ENTROPY, lag=lag)
    feed(server, sent)
    held_up = seconds + 5
    server.tick(held_up)  # before what came meanwhile is read
    lag.beat(held_up)
    server.tick(held_up)
    for turn in range(1, round(10 * seconds)):
        lag.beat(held_up + turn / 10)
    server.tick(held_up + seconds - 0.2)
    with pytest.raises(TimedOut, match=awaited):
        server.tick(held_up + seconds)
