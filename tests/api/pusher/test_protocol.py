"""One client's dialogue, without a socket: its messages, and the answers."""

import hashlib
import hmac
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.pusher.limits import MAX_MESSAGE_BYTES, PusherSettings
from api.pusher.protocol import (
    Action,
    ChannelGrant,
    CheckGrant,
    CloseConnection,
    PusherSession,
    SendText,
    Subscribe,
    Unsubscribe,
    connection_error,
    event_message,
    granted_auth,
    is_channel,
    signature,
)

KEY = "0123456789abcdef0123"
SECRET = "a secret of tests"
SOCKET = "1.2"

Json = dict[str, Any]  # Any: the tests check the types


def sign(socket: str, channel: str) -> str:
    """Sign a subscription as the protocol specifies it, without the code under test."""
    return hmac.new(SECRET.encode(), f"{socket}:{channel}".encode(), hashlib.sha256).hexdigest()


def open_session(**limits: float) -> PusherSession:
    settings = msgspec.convert(limits, PusherSettings, strict=False)
    return PusherSession(socket=SOCKET, key=KEY, sign=sign, limits=settings, now=0.0)


def message(event: str, **data: object) -> str:
    return json.dumps({"event": event, "data": data})


def decoded(act: Action) -> Json:
    """Decode a message as a client does: JSON, and JSON within it."""
    assert isinstance(act, SendText)
    outer = json.loads(act.text)
    assert isinstance(outer["data"], str)
    return {**outer, "data": json.loads(outer["data"])}


def single(acts: tuple[Action, ...]) -> Action:
    (act,) = acts
    return act


def test_the_opening_names_the_socket_and_how_long_silence_may_last() -> None:
    assert decoded(open_session(activity_seconds=25.5).greeting()) == {
        "event": "pusher:connection_established",
        "data": {"socket_id": SOCKET, "activity_timeout": 25},
    }


@pytest.mark.parametrize(
    ("requested_key", "protocol", "code"),
    [
        pytest.param(KEY, "7", None, id="right"),
        pytest.param(KEY, "5", None, id="the oldest that says data twice"),
        pytest.param("other", "7", 4001, id="another app"),
        pytest.param("", "7", 4001, id="no app"),
        pytest.param("\u00fc\udcff", "7", 4001, id="an app that is no text"),
        pytest.param(KEY, None, 4008, id="no protocol"),
        pytest.param(KEY, "", 4008, id="an empty protocol"),
        pytest.param(KEY, "seven", 4006, id="a protocol that is no number"),
        pytest.param(KEY, "\u0667", 4006, id="a number in other digits"),
        pytest.param(KEY, "4", 4007, id="too old"),
        pytest.param(KEY, "8", 4007, id="too new"),
    ],
)
def test_which_connections_are_accepted(
    requested_key: str, protocol: str | None, code: int | None
) -> None:
    end = connection_error(key=KEY, requested_key=requested_key, protocol=protocol)
    assert (end.code if end else None) == code


def test_the_reason_of_an_end_is_sent_before_the_close() -> None:
    outer = json.loads(CloseConnection(4100, "too much").text)
    assert outer["event"] == "pusher:error"
    assert json.loads(outer["data"]) == {"code": 4100, "message": "too much"}


def test_a_ping_is_answered() -> None:
    assert (
        decoded(single(open_session().receive(message("pusher:ping"), 1)))["event"] == "pusher:pong"
    )


@pytest.mark.parametrize("text", [message("pusher:subscribe", channel="stream.abc"),
    json.dumps({"event": "pusher:subscribe", "data": '{"channel":"stream.abc"}'})],
    ids=["an object", "JSON in JSON"])  # fmt: skip
def test_a_subscription_is_confirmed_before_it_brings_events(text: str) -> None:
    confirmation, subscription = open_session().receive(text, 1)
    assert decoded(confirmation) == {
        "event": "pusher_internal:subscription_succeeded",
        "channel": "stream.abc",
        "data": {},
    }
    assert subscription == Subscribe("stream.abc")


def test_a_second_subscription_is_confirmed_and_joins_nothing() -> None:
    session = open_session()
    session.receive(message("pusher:subscribe", channel="a"), 1)
    assert (
        decoded(single(session.receive(message("pusher:subscribe", channel="a"), 1)))["channel"]
        == "a"
    )


def test_unsubscribing_is_silent_and_once() -> None:
    session = open_session()
    session.receive(message("pusher:subscribe", channel="a"), 1)
    assert session.receive(message("pusher:unsubscribe", channel="a"), 1) == (Unsubscribe("a"),)
    assert session.receive(message("pusher:unsubscribe", channel="a"), 1) == ()


def test_a_private_channel_requires_its_signature() -> None:
    channel = "private-stream.abc"
    auth = f"{KEY}:{sign(SOCKET, channel)}"
    wrong = [None, "", 7, sign(SOCKET, channel), f"{KEY}:{sign('1.3', channel)}", f"x{auth}",
             f"{KEY}:{sign(SOCKET, 'private-stream.abd')}", auth.upper(), "\u00fc"]  # fmt: skip
    for each in wrong:
        refused = decoded(
            single(
                open_session().receive(message("pusher:subscribe", channel=channel, auth=each), 1)
            )
        )
        assert refused["event"] == "pusher:subscription_error"
        assert (refused["channel"], refused["data"]["status"]) == (channel, 401)
        assert refused["data"]["type"] == "AuthError"
    opened = open_session().receive(message("pusher:subscribe", channel=channel, auth=auth), 1)
    assert opened[-1] == Subscribe(channel)


TOKEN = ChannelGrant(token=17)
SESSION = ChannelGrant(token=17, session="ab" * 32)
PRIVATE = "private-stream.abc"


def ask_for(session: PusherSession, grant: ChannelGrant, channel: str = PRIVATE) -> Action:
    """Subscribe by a grant; return what is to be done first."""
    auth = granted_auth(KEY, sign, SOCKET, channel, grant)
    return single(session.receive(message("pusher:subscribe", channel=channel, auth=auth), 1))


@pytest.mark.parametrize("grant", [TOKEN, SESSION], ids=["a token", "a session"])
def test_a_subscription_by_a_token_is_checked_before_it_is_confirmed(grant: ChannelGrant) -> None:
    session = open_session()
    check = ask_for(session, grant)
    assert isinstance(check, CheckGrant)
    assert check == CheckGrant(PRIVATE, grant)
    refused = decoded(single(session.admit(check, holds=False)))
    assert (refused["event"], refused["data"]["status"]) == ("pusher:subscription_error", 401)
    assert not session.grants
    confirmation, subscription = session.admit(check, holds=True)
    assert decoded(confirmation)["event"] == "pusher_internal:subscription_succeeded"
    assert subscription == Subscribe(PRIVATE)
    assert list(session.grants) == [grant]


def test_no_other_grant_fits_a_signature() -> None:
    auth = granted_auth(KEY, sign, SOCKET, PRIVATE, TOKEN)
    key, signed, _ = auth.split(":")
    plain = f"{KEY}:{sign(SOCKET, PRIVATE)}"
    wrong = [f"{key}:{signed}", f"{key}:{signed}:18", f"{key}:{signed}:17-{SESSION.session}",
             f"{auth}:17", f"{auth} ", f"{plain}:17", f"{plain}:",
             f"{key}:17:{signed}"]  # fmt: skip
    for each in wrong:
        text = message("pusher:subscribe", channel=PRIVATE, auth=each)
        assert decoded(single(open_session().receive(text, 1)))["data"]["status"] == 401, each


def test_what_rests_on_an_ended_grant_ends_and_all_else_goes_on() -> None:
    session = open_session()
    for channel, grant in (("private-a", TOKEN), ("private-b", SESSION), ("private-c", TOKEN)):
        check = ask_for(session, grant, channel)
        assert isinstance(check, CheckGrant)
        session.admit(check, holds=True)
    auth = f"{KEY}:{sign(SOCKET, 'private-d')}"
    session.receive(message("pusher:subscribe", channel="private-d", auth=auth), 1)
    session.receive(message("pusher:subscribe", channel="stream.abc"), 1)
    left, told, left_too, told_too = session.end_grants({TOKEN})
    assert (left, left_too) == (Unsubscribe("private-a"), Unsubscribe("private-c"))
    for each, channel in ((told, "private-a"), (told_too, "private-c")):
        refusal = decoded(each)
        assert (refusal["event"], refusal["channel"]) == ("pusher:subscription_error", channel)
        assert (refusal["data"]["type"], refusal["data"]["status"]) == ("AuthError", 401)
    assert session.end_grants({TOKEN}) == ()
    assert list(session.grants) == [SESSION]


def test_the_newest_authorisation_of_a_channel_counts() -> None:
    session = open_session()
    for grant in (TOKEN, SESSION):
        check = ask_for(session, grant)
        assert isinstance(check, CheckGrant)
        session.admit(check, holds=True)
    assert session.end_grants({TOKEN}) == ()
    session.receive(message("pusher:unsubscribe", channel=PRIVATE), 1)
    assert not session.grants
    assert session.end_grants({SESSION}) == ()


def test_our_signature_is_the_protocols() -> None:
    assert signature(SECRET, f"{SOCKET}:private-a") == sign(SOCKET, "private-a")


@pytest.mark.parametrize("channel", ["presence-a", "private-encrypted-a", "cache-a",
                                     "private-cache-a"])  # fmt: skip
def test_channels_that_are_not_offered_are_refused_in_words(channel: str) -> None:
    auth = f"{KEY}:{sign(SOCKET, channel)}"
    refused = decoded(
        single(open_session().receive(message("pusher:subscribe", channel=channel, auth=auth), 1))
    )
    assert (refused["event"], refused["channel"]) == ("pusher:subscription_error", channel)
    assert refused["data"]["type"] == "NotOffered"


@pytest.mark.parametrize("channel", ["", "a b", "a/b", "ü", "a" * 201, None, 7, ["a"], "#server"])
def test_a_name_that_no_channel_has_is_an_error(channel: object) -> None:
    error = decoded(single(open_session().receive(message("pusher:subscribe", channel=channel), 1)))
    assert error["event"] == "pusher:error"
    assert isinstance(channel, str) is False or not is_channel(str(channel))


def test_channels_are_bounded_and_leaving_makes_room() -> None:
    session = open_session(channels=2)
    for name in "ab":
        session.receive(message("pusher:subscribe", channel=name), 1)
    refused = decoded(single(session.receive(message("pusher:subscribe", channel="c"), 1)))
    assert refused["data"]["type"] == "LimitReached"
    session.receive(message("pusher:unsubscribe", channel="a"), 1)
    assert session.receive(message("pusher:subscribe", channel="c"), 1)[-1] == Subscribe("c")


def test_client_events_are_refused_and_close_nothing() -> None:
    error = decoded(single(open_session().receive(message("client-typing", channel="a"), 1)))
    assert (error["event"], error["data"]["code"]) == ("pusher:error", 4301)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"a"', "{}", '{"event":7}', "nul", "\ud800",
                                  "[" * 4000, '{"event":"other"}', '{"event":"pusher:signin"}',
                                  '{"event":"pusher:subscribe"}', '{"event":"pusher:subscribe","data":"{"}'])  # fmt: skip  # noqa: E501
def test_what_is_no_message_is_an_error_and_closes_nothing(text: str) -> None:
    assert decoded(single(open_session().receive(text, 1)))["event"] == "pusher:error"


@pytest.mark.parametrize("letter", ["a", "ü"])
def test_a_message_that_is_too_long_ends_the_connection(letter: str) -> None:
    room = MAX_MESSAGE_BYTES - len(message("x", a=""))
    fits = json.dumps({"event": "x", "data": {"a": letter * (room // len(letter.encode()))}},
                      ensure_ascii=False)  # fmt: skip
    assert isinstance(single(open_session().receive(fits, 1)), SendText)
    end = single(open_session().receive(fits + "  ", 1))
    assert isinstance(end, CloseConnection)
    assert 4000 <= end.code < 4100, "a client that does so must stay away"


def test_a_client_that_sends_too_much_is_disconnected_and_may_reconnect() -> None:
    session = open_session(messages_at_once=10, messages_per_second=2)
    for _ in range(10):
        assert isinstance(single(session.receive(message("pusher:ping"), 1)), SendText)
    assert isinstance(single(session.receive(message("pusher:ping"), 1.4)), CloseConnection)
    assert isinstance(single(session.receive(message("pusher:ping"), 1.6)), SendText)
    assert isinstance(end := single(session.receive(message("pusher:ping"), 1.6)), CloseConnection)
    assert 4100 <= end.code < 4200


def test_a_silent_client_is_pinged_and_then_disconnected() -> None:
    session = open_session(activity_seconds=20, pong_seconds=10)
    assert session.tick(19.9) == ()
    assert decoded(single(session.tick(20)))["event"] == "pusher:ping"
    assert session.tick(29.9) == ()
    assert isinstance(end := single(session.tick(30)), CloseConnection)
    assert end.code == 4201


@pytest.mark.parametrize("text", [message("pusher:pong"), message("pusher:ping"), "no message"])
def test_any_message_counts_as_activity(text: str) -> None:
    session = open_session(activity_seconds=20, pong_seconds=10)
    assert session.tick(20)
    session.receive(text, 29)
    assert session.tick(48.9) == ()
    assert decoded(single(session.tick(49)))["event"] == "pusher:ping"


def test_data_of_an_event_is_a_text_whatever_it_holds() -> None:
    data = '{"title":"\u2028 \\"quoted\\" \u00fc"}'
    assert json.loads(event_message("live", "stream.a", data)) == {
        "event": "live",
        "channel": "stream.a",
        "data": data,
    }


_EVENTS = st.sampled_from(
    ["pusher:subscribe", "pusher:unsubscribe", "pusher:ping", "pusher:pong", "client-a", "x"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_SUBSCRIPTION = st.fixed_dictionaries(
    {"channel": st.sampled_from(["a", "b", "private-a", "presence-a", ""]) | _VALUES},
    optional={"auth": st.text() | _VALUES},
)
_MESSAGES = st.fixed_dictionaries(
    {"event": _EVENTS | _VALUES},
    optional={"data": _SUBSCRIPTION | _SUBSCRIPTION.map(json.dumps) | _VALUES},
).map(json.dumps)
_TEXTS = st.lists(st.text() | st.text(st.characters()) | _MESSAGES, max_size=30)


@given(texts=_TEXTS)
def test_any_text_gives_answers_or_an_end_within_the_bounds(texts: list[str]) -> None:
    session = open_session(channels=2, messages_at_once=10, messages_per_second=1)
    joined: set[str] = set()
    for number, text in enumerate(texts):
        for act in (*session.receive(text, number / 4), *session.tick(number / 4)):
            match act:
                case SendText(answer):
                    assert isinstance(json.loads(answer)["event"], str)
                    assert len(answer) < 2 * MAX_MESSAGE_BYTES
                case Subscribe(channel):
                    assert is_channel(channel)
                    joined.add(channel)
                case Unsubscribe(channel):
                    joined.remove(channel)
                case CheckGrant(channel):
                    raise AssertionError(f"a signature for {channel} was guessed")
                case CloseConnection(code, _):
                    assert 4000 <= code < 4300, "clients know what to do after these alone"
    assert len(joined) <= 2
