"""The commands of a publisher: their answers, and their order (RTMP 1.0, 7.2)."""

import struct

import pytest

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.dialogue import NEXT, State
from ingest.rtmp.errors import (
    AddressRefused,
    OutOfOrder,
    PlayRefused,
)
from ingest.rtmp.events import (
    Connected,
    Goodbye,
    PublishRequested,
)
from ingest.rtmp.messages import MessageType
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.rtmp_peer import (
    BEFORE,
    GOODBYE,
    HANDSHAKE,
    MEDIA,
    NAME,
    command,
    connect,
    feed,
    publish,
    session,
)

GOODBYES = [
    pytest.param(command("FCUnpublish", 6.0, None, NAME), id="FCUnpublish"),
    pytest.param(command("deleteStream", 7.0, None, 1.0), id="deleteStream"),
    pytest.param(command("deleteStream", 0.0, None, NAME), id="deleteStream with the name"),
    pytest.param(command("closeStream", 0.0, None, stream=1), id="closeStream"),
]


def test_an_opening_gets_the_answers_that_encoders_expect() -> None:
    server = session()
    events = feed(server, [encoder.opening()], allow=False)
    assert [type(event) for event in events] == [Connected, PublishRequested]
    written = server.outgoing()
    answers = encoder.answers(written[3073:])
    kinds = [answer.kind for answer in answers]
    assert kinds[:3] == [5, 6, 4]  # (the chunk size, 1, is the reader's own)
    assert bytes(answers[0].body) == struct.pack(">I", 2_500_000)
    assert bytes(answers[1].body) == struct.pack(">IB", 2_500_000, 2)
    assert bytes(answers[2].body) == struct.pack(">HI", 0, 0)
    answered = encoder.answered_commands(written[3073:])
    names = [(stream, *values[:2]) for stream, values in answered]
    assert names == [
        (0, "_result", 1.0),
        (0, "_result", 2.0),
        (0, "_result", 3.0),
        (0, "onFCPublish", 0.0),
        (0, "_result", 4.0),
    ]
    match answered[0][1]:
        case [_, _, _, {"code": code, "level": level, "objectEncoding": encoding}]:
            assert (code, level) == ("NetConnection.Connect.Success", "status")
            assert encoding == 0.0
        case other:
            pytest.fail(f"{other}")
    assert answered[4][1][2:] == [None, 1.0]


def test_the_chunk_size_is_announced_before_it_is_used() -> None:
    server = session()
    feed(server, [HANDSHAKE, connect()])
    written = server.outgoing()[3073:]
    assert b"\x02\0\0\0\0\0\x04\x01\0\0\0\0\0\x01\0\0" in written
    # Every chunk has a whole header: the long answer to connect is not cut.
    assert b"NetConnection.Connect.Success" in written


def test_permission_is_answered_on_the_published_message_stream() -> None:
    server = session()
    feed(server, [HANDSHAKE, connect(), command("createStream", 2.0, None)])
    feed(server, [command("createStream", 3.0, None)])
    feed(server, [publish(stream=2)], allow=False)
    server.outgoing()
    server.allow()
    written = server.outgoing()
    assert encoder.statuses(written) == [(2, "status", "NetStream.Publish.Start")]
    begin = encoder.answers(written)[0]
    assert (begin.kind, bytes(begin.body)) == (4, struct.pack(">HI", 0, 2))
    assert server.publishing


def test_publish_with_the_transaction_0_is_accepted() -> None:
    # GStreamer's rtmp2sink gives 0 to releaseStream, FCPublish and publish.
    server = session()
    events = feed(
        server,
        [
            HANDSHAKE,
            connect(),
            command("releaseStream", 0.0, None, NAME),
            command("FCPublish", 0.0, None, NAME),
            command("createStream", 2.0, None),
            publish(transaction=0.0),
        ],
    )
    assert isinstance(events[-1], PublishRequested)
    answered = encoder.answered_commands(server.outgoing()[3073:])
    assert [values[0] for _, values in answered] == [
        "_result", "onFCPublish", "_result", "onStatus",
    ]  # fmt: skip


def test_a_publish_request_has_application_and_name() -> None:
    server = session()
    app, url = "live?a=1", "rtmp://tv.example/live?a=1"
    events = feed(server, [encoder.opening(app, f"{NAME}?token=hush", url)], allow=False)
    request = events[-1]
    assert request == PublishRequested(application="live", name=NAME)
    assert NAME not in f"{request} {request!r}"
    assert "hush" not in f"{request} {request!r}"


def test_the_agents_unprintable_characters_are_replaced() -> None:
    server = session()
    body: Amf = {"app": "live", "flashVer": "FMLE/3.0\n" + "x" * 100}
    events = feed(server, [HANDSHAKE, command("connect", 1.0, body)])
    assert events == [Connected(agent="FMLE/3.0?" + "x" * 55)]


def test_a_withdrawn_publish_must_be_answered_before_another() -> None:
    # Otherwise the permission for one key would admit another.
    server = session()
    feed(server, [encoder.opening() + GOODBYE], allow=False)
    with pytest.raises(OutOfOrder):
        feed(server, [publish("another-key")], allow=False)


def test_after_the_late_answer_another_publish_is_accepted() -> None:
    server = session()
    feed(server, [encoder.opening() + GOODBYE], allow=False)
    server.allow()
    events = feed(server, [publish("another-key")], allow=False)
    assert [type(event) for event in events] == [PublishRequested]
    assert not server.publishing


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_a_goodbye_is_reported_once_and_later_media_are_dropped(goodbye: bytes) -> None:
    server = encoder.publishing()
    assert feed(server, [goodbye]) == [Goodbye()]
    assert not server.publishing
    assert feed(server, [MEDIA]) == []
    assert feed(server, [command("deleteStream", 7.0, None, 1.0)]) == []
    assert server.counters.dropped == 5


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_an_encoder_may_stop_and_start_again(goodbye: bytes) -> None:
    server = encoder.publishing()
    feed(server, [MEDIA, goodbye])
    server.outgoing()  # the answers to what came before
    feed(server, [command("createStream", 8.0, None)])
    (stream,) = [
        values[3]
        for _, values in encoder.answered_commands(server.outgoing())
        if values[0] == "_result"
    ]
    assert isinstance(stream, float)
    events = feed(server, [publish(stream=int(stream))])
    assert [type(event) for event in events] == [PublishRequested]
    assert server.publishing
    assert len(feed(server, [MEDIA])) == 5


def test_deleting_another_message_stream_ends_nothing() -> None:
    server = encoder.publishing()
    assert feed(server, [command("createStream", 6.0, None)]) == []
    assert feed(server, [command("deleteStream", 7.0, None, 2.0)]) == []
    assert server.publishing


def test_an_amf3_command_is_accepted() -> None:
    server = session()
    body = b"\0" + amf0.encode("connect", 1.0, {"app": "live", "objectEncoding": 3.0})
    events = feed(server, [HANDSHAKE, encoder.message(3, MessageType.COMMAND_AMF3, body)])
    assert [type(event) for event in events] == [Connected]


def test_enhanced_rtmps_capabilities_in_connect_do_no_harm() -> None:
    server = session()
    codecs: list[Amf] = ["hvc1", "av01"]
    body: Amf = {"app": "live", "fourCcList": codecs, "capsEx": 3.0}
    assert len(feed(server, [HANDSHAKE, command("connect", 1.0, body)])) == 1


COMMANDS = sorted({name for _, name in NEXT})


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_a_row_breaks_the_protocol(state: State, name: str) -> None:
    server = session()
    feed(server, [BEFORE[state]], allow=state is State.PUBLISHING)
    answered = command(name, 9.0, None, NAME, stream=1)
    if (state, name) in NEXT:
        feed(server, [answered], allow=False)
        return
    with pytest.raises(OutOfOrder):
        feed(server, [answered], allow=False)


def test_publish_on_a_message_stream_that_is_not_created_breaks_the_protocol() -> None:
    server = session()
    with pytest.raises(OutOfOrder):
        feed(server, [HANDSHAKE, connect(), publish(stream=1)])


def test_any_command_before_connect_breaks_the_protocol() -> None:
    with pytest.raises(OutOfOrder) as caught:
        feed(session(), [HANDSHAKE, command("sesame", 1.0, None)])
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("name", ["play", "play2"])
def test_play_is_refused_with_a_status(name: str) -> None:
    server = session()
    feed(server, [HANDSHAKE, connect(), command("createStream", 2.0, None)])
    server.outgoing()
    with pytest.raises(PlayRefused):
        feed(server, [command(name, 0.0, None, NAME, stream=1)])
    assert encoder.statuses(server.outgoing()) == [(1, "error", "NetStream.Play.Failed")]


@pytest.mark.parametrize(
    ("app", "name"), [("live", ""), ("live/one-key-of-them", "another-key"), ("live", "x" * 200)]
)
def test_an_address_that_names_no_stream_is_refused_with_a_status(app: str, name: str) -> None:
    server = session()
    events = feed(server, [encoder.opening(app, name)])
    assert [type(event) for event in events] == [Connected]
    with pytest.raises(AddressRefused):
        server.tick(0.0)
    statuses = encoder.statuses(server.outgoing())
    assert statuses == [(1, "error", "NetStream.Publish.BadName")]
