"""Commands as values (RTMP 1.0, 7.1 and 7.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.errors import RtmpError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import CommandMessage, MessageType, parse_command

LIMITS = Limits()
COMMAND, COMMAND_AMF3 = MessageType.COMMAND, MessageType.COMMAND_AMF3


@pytest.mark.parametrize(
    ("values", "name", "transaction", "argument"),
    [
        pytest.param(["publish", 5.0, None, "key", "live"], "publish", 5.0, "key", id="publish"),
        pytest.param(["publish", 0.0, None, "key"], "publish", 0.0, "key", id="transaction 0"),
        pytest.param(["publish", None, None, "key"], "publish", 0.0, "key", id="no transaction"),
        pytest.param(["createStream", 2.0], "createStream", 2.0, None, id="no object"),
        pytest.param(["_checkbw"], "_checkbw", 0.0, None, id="a name alone"),
    ],
)
def test_a_command_is_read(values: list[Amf], name: str, transaction: float, argument: Amf) -> None:
    parsed = parse_command(COMMAND, amf0.encode(*values), LIMITS)
    assert (parsed.name, parsed.transaction, parsed.argument) == (name, transaction, argument)


def test_an_amf3_command_is_amf0_behind_a_zero() -> None:
    body = b"\0" + amf0.encode("connect", 1.0, {"app": "live"})
    parsed = parse_command(COMMAND_AMF3, body, LIMITS)
    assert (parsed.name, parsed.object) == ("connect", {"app": "live"})
    assert parse_command(COMMAND_AMF3, body[1:], LIMITS) == parsed


def test_an_amf3_commands_arguments_may_be_amf3() -> None:
    # RootEncoder's, where it was told to speak AMF3.
    body = b"\0" + amf0.encode("publish", 5.0) + b"\x11\x01\x11\x06\x07key\x11\x06\x09live"
    parsed = parse_command(COMMAND_AMF3, body, LIMITS)
    assert (parsed.name, parsed.transaction, parsed.argument) == ("publish", 5.0, "key")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(amf0.encode(1.0), id="no name"),
        pytest.param(amf0.encode("publish", "1"), id="a transaction that is text"),
        pytest.param(amf0.encode("publish") + b"\0", id="cut off"),
        pytest.param(b"\x11\x06", id="AMF3 cut off"),
    ],
)
def test_what_is_no_command_is_an_error(body: bytes) -> None:
    with pytest.raises(RtmpError):
        parse_command(COMMAND, body, LIMITS)


def test_a_command_hides_its_arguments_in_repr() -> None:
    parsed = CommandMessage("publish", 5.0, [None, "secret-key"])
    assert "secret" not in f"{parsed} {parsed!r}"


@given(st.binary(max_size=120))
def test_any_bytes_are_a_command_or_an_error(body: bytes) -> None:
    try:
        parsed = parse_command(COMMAND, body, LIMITS)
    except RtmpError:
        return
    assert isinstance(parsed.name, str)
