"""The commands of a publisher: what they are answered, and their order (RTMP 1.0, 7.2)."""

import struct

import pytest

from ingest.rtmp import amf0
from ingest.rtmp.amf0 import Amf
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


def test_an_opening_is_answered_as_encoders_want_it() -> None:
    here = session()
    events = feed(here, [encoder.opening()], allow=False)
    assert [type(event) for event in events] == [Connected, PublishRequested]
    written = here.outgoing()
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
    here = session()
    feed(here, [HANDSHAKE, connect()])
    written = here.outgoing()[3073:]
    assert b"\x02\0\0\0\0\0\x04\x01\0\0\0\0\0\x01\0\0" in written
    # Every chunk has a whole header: the long answer to connect is not cut.
    assert b"NetConnection.Connect.Success" in written


def test_leave_is_told_on_the_published_message_stream() -> None:
    here = session()
    feed(here, [HANDSHAKE, connect(), command("createStream", 2.0, None)])
    feed(here, [command("createStream", 3.0, None)])
    feed(here, [publish(stream=2)], allow=False)
    here.outgoing()
    here.allow()
    written = here.outgoing()
    assert encoder.statuses(written) == [(2, "status", "NetStream.Publish.Start")]
    begin = encoder.answers(written)[0]
    assert (begin.kind, bytes(begin.body)) == (4, struct.pack(">HI", 0, 2))
    assert here.publishing


def test_publish_without_a_transaction_is_asked_like_any_other() -> None:
    # GStreamer's rtmp2sink gives 0 to releaseStream, FCPublish and publish.
    here = session()
    events = feed(
        here,
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
    answered = encoder.answered_commands(here.outgoing()[3073:])
    assert [values[0] for _, values in answered] == [
        "_result", "onFCPublish", "_result", "onStatus",
    ]  # fmt: skip


def test_who_asks_is_told() -> None:
    here = session()
    app, url = "live?a=1", "rtmp://tv.example/live?a=1"
    events = feed(here, [encoder.opening(app, f"{NAME}?token=hush", url)], allow=False)
    asked = events[-1]
    assert asked == PublishRequested(
        application="live", name=NAME, query={"a": "1", "token": "hush"}, host="tv.example"
    )
    assert NAME not in f"{asked} {asked!r}"
    assert "hush" not in f"{asked} {asked!r}"


def test_the_agent_is_told_without_what_cannot_be_printed() -> None:
    here = session()
    body: Amf = {"app": "live", "flashVer": "FMLE/3.0\n" + "x" * 100}
    events = feed(here, [HANDSHAKE, command("connect", 1.0, body)])
    assert events == [Connected(agent="FMLE/3.0?" + "x" * 55)]


def test_a_withdrawn_wish_is_answered_before_another_may_come() -> None:
    # Else the leave for one key would let another in.
    here = session()
    feed(here, [encoder.opening() + GOODBYE], allow=False)
    with pytest.raises(OutOfOrder):
        feed(here, [publish("another-key")], allow=False)


def test_after_the_late_answer_another_wish_may_come() -> None:
    here = session()
    feed(here, [encoder.opening() + GOODBYE], allow=False)
    here.allow()
    events = feed(here, [publish("another-key")], allow=False)
    assert [type(event) for event in events] == [PublishRequested]
    assert not here.publishing


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_a_goodbye_is_told_once_and_media_stop(goodbye: bytes) -> None:
    here = encoder.publishing()
    assert feed(here, [goodbye]) == [Goodbye()]
    assert not here.publishing
    assert feed(here, [MEDIA]) == []
    assert feed(here, [command("deleteStream", 7.0, None, 1.0)]) == []
    assert here.counters.dropped == 5


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_an_encoder_may_stop_and_start_again(goodbye: bytes) -> None:
    here = encoder.publishing()
    feed(here, [MEDIA, goodbye])
    created = len(encoder.answers(here.outgoing()))
    events = feed(here, [command("createStream", 8.0, None)])
    (stream,) = [
        values[3]
        for _, values in encoder.answered_commands(here.outgoing())
        if values[0] == "_result"
    ]
    assert isinstance(stream, float)
    events = feed(here, [publish(stream=int(stream))])
    assert [type(event) for event in events] == [PublishRequested]
    assert here.publishing
    assert len(feed(here, [MEDIA])) == 5
    assert created >= 0


def test_deleting_another_message_stream_ends_nothing() -> None:
    here = encoder.publishing()
    assert feed(here, [command("createStream", 6.0, None)]) == []
    assert feed(here, [command("deleteStream", 7.0, None, 2.0)]) == []
    assert here.publishing


def test_an_amf3_command_is_accepted() -> None:
    here = session()
    body = b"\0" + amf0.encode("connect", 1.0, {"app": "live", "objectEncoding": 3.0})
    events = feed(here, [HANDSHAKE, encoder.message(3, MessageType.COMMAND_AMF3, body)])
    assert [type(event) for event in events] == [Connected]


def test_enhanced_rtmps_capabilities_in_connect_do_no_harm() -> None:
    here = session()
    codecs: list[Amf] = ["hvc1", "av01"]
    body: Amf = {"app": "live", "fourCcList": codecs, "capsEx": 3.0}
    assert len(feed(here, [HANDSHAKE, command("connect", 1.0, body)])) == 1


COMMANDS = sorted({name for _, name in NEXT})


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_a_row_breaks_the_protocol(state: State, name: str) -> None:
    here = session()
    feed(here, [BEFORE[state]], allow=state is State.PUBLISHING)
    answered = command(name, 9.0, None, NAME, stream=1)
    if (state, name) in NEXT:
        feed(here, [answered], allow=False)
        return
    with pytest.raises(OutOfOrder):
        feed(here, [answered], allow=False)


def test_publish_on_a_message_stream_that_is_not_created_breaks_the_protocol() -> None:
    here = session()
    with pytest.raises(OutOfOrder):
        feed(here, [HANDSHAKE, connect(), publish(stream=1)])


def test_any_command_before_connect_breaks_the_protocol() -> None:
    with pytest.raises(OutOfOrder) as caught:
        feed(session(), [HANDSHAKE, command("sesame", 1.0, None)])
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("name", ["play", "play2"])
def test_play_is_refused_with_a_status(name: str) -> None:
    here = session()
    feed(here, [HANDSHAKE, connect(), command("createStream", 2.0, None)])
    here.outgoing()
    with pytest.raises(PlayRefused):
        feed(here, [command(name, 0.0, None, NAME, stream=1)])
    assert encoder.statuses(here.outgoing()) == [(1, "error", "NetStream.Play.Failed")]


@pytest.mark.parametrize(
    ("app", "name"), [("live", ""), ("live/one-key-of-them", "another-key"), ("live", "x" * 200)]
)
def test_an_address_that_names_no_stream_is_refused_with_a_status(app: str, name: str) -> None:
    here = session()
    events = feed(here, [encoder.opening(app, name)])
    assert [type(event) for event in events] == [Connected]
    with pytest.raises(AddressRefused):
        here.tick(0.0)
    statuses = encoder.statuses(here.outgoing())
    assert statuses == [(1, "error", "NetStream.Publish.BadName")]
