"""The broadcaster's limits: each has a reason, and none is less than the protocol needs."""

import typing

import msgspec
import pytest

from api.pusher.limits import MAX_CHANNELS, MAX_MESSAGE_BYTES, PusherSettings

HINTS = typing.get_type_hints(PusherSettings, include_extras=True)


@pytest.mark.parametrize("field", PusherSettings.__struct_fields__)
def test_each_limit_has_a_description_with_its_reason(field: str) -> None:
    (meta,) = (each for each in typing.get_args(HINTS[field]) if isinstance(each, msgspec.Meta))
    assert meta.description
    assert meta.extra is not None
    assert meta.extra["reason"]
    units = {"_bytes": "bytes", "_seconds": "s"}
    unit = next((unit for end, unit in units.items() if field.endswith(end)), "")
    assert meta.extra["unit"] == unit


def test_the_defaults_are_within_their_bounds() -> None:
    settings = PusherSettings()
    assert msgspec.convert(msgspec.to_builtins(settings), PusherSettings) == settings
    # A client may subscribe to all its channels at once, and one message fits the queue.
    assert settings.channels <= settings.messages_at_once
    assert settings.channels >= MAX_CHANNELS
    assert settings.waiting_bytes > MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sockets", 0),
        ("channels", 0),
        ("waiting", 7),
        ("waiting_bytes", 2 * MAX_MESSAGE_BYTES - 1),
        ("messages_per_second", 0.5),
        ("messages_at_once", 9),
        ("activity_seconds", 601),
        ("pong_seconds", 0),
        ("sokets", 5),
    ],
)
def test_values_beyond_the_bounds_are_refused(field: str, value: float) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({field: value}, PusherSettings)
