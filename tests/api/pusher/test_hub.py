"""Which subscribers get which messages, and what happens to those that do not read."""

import asyncio
import struct

import pytest
from websockets.frames import Frame, Opcode

from api.pusher.hub import Hub, Subscriber, frame
from api.pusher.limits import PusherSettings
from api.pusher.protocol import CloseConnection, event_message
from media.fair_share import client_holders

LIMITS = PusherSettings(waiting=8, waiting_bytes=20_000)


def add_subscriber(hub: Hub, name: str, *channels: str) -> Subscriber:
    subscriber = Subscriber(name, LIMITS)
    hub.add(subscriber)
    for channel in channels:
        hub.subscribe(subscriber, channel)
    return subscriber


def waiting_messages(subscriber: Subscriber) -> list[str]:
    """Close the subscriber, and return the messages that waited."""

    async def drain() -> list[str]:
        subscriber.close(CloseConnection(4200, "the test is over"))
        texts: list[str] = []
        while (text := await subscriber.next()) is not None:
            texts.append(text)
        return texts

    return asyncio.run(drain())


def test_an_event_goes_to_its_channels_except_the_socket_it_names() -> None:
    hub = Hub(LIMITS)
    first, second, other = (
        add_subscriber(hub, "1", "a"),
        add_subscriber(hub, "2", "a", "b"),
        add_subscriber(hub, "3", "b"),
    )
    hub.deliver(["a"], "live", "{}", except_socket="1")
    hub.deliver(["a", "b", "nobody's"], "live", "[]")
    assert waiting_messages(first) == [event_message("live", "a", "[]")]
    assert waiting_messages(second) == [
        event_message("live", "a", "{}"),
        event_message("live", "a", "[]"),
        event_message("live", "b", "[]"),
    ]
    assert waiting_messages(other) == [event_message("live", "b", "[]")]


def test_a_channel_without_subscribers_takes_no_memory() -> None:
    hub = Hub(LIMITS)
    subscriber = add_subscriber(hub, "1")
    for number in range(1000):
        hub.subscribe(subscriber, f"c{number}")
        hub.unsubscribe(subscriber, f"c{number}")
    assert hub.channels == 0
    hub.subscribe(subscriber, "a")
    hub.unsubscribe(subscriber, "never heard")
    hub.remove(subscriber)
    assert (hub.channels, len(hub)) == (0, 0)


@pytest.mark.parametrize(("data", "most"), [("x", 8), ("x" * 6_000, 3)], ids=["count", "bytes"])
def test_a_subscriber_that_does_not_read_is_disconnected_at_the_bound(data: str, most: int) -> None:
    hub = Hub(LIMITS)
    slow = add_subscriber(hub, "1", "a")
    closes: list[float] = []
    slow.on_close = closes.append
    for _ in range(most):
        hub.deliver(["a"], "live", data)
        assert slow.end is None
    hub.deliver(["a"], "live", data)
    assert slow.end is not None
    assert slow.end.code == 4100
    assert closes == [0], "its writer is not to wait"
    assert waiting_messages(slow) == [], "what waited takes no room any more"


def test_the_first_close_reason_is_kept_and_no_message_follows_it() -> None:
    hub = Hub(LIMITS)
    subscriber = add_subscriber(hub, "1", "a")
    hub.deliver(["a"], "before", "{}")
    hub.reconnect("events are missing")
    hub.deliver(["a"], "after", "{}")
    hub.stop()
    assert waiting_messages(subscriber) == [event_message("before", "a", "{}")]
    assert subscriber.end == CloseConnection(4200, "events are missing")


def test_frames_are_written_at_once_if_possible_and_always_in_order() -> None:
    hub = Hub(LIMITS)
    subscriber = add_subscriber(hub, "1", "a")
    frames: list[bytes] = []
    writable = True

    def write(data: bytes) -> bool:
        if writable:
            frames.append(data)
        return writable

    subscriber.send_frame = write
    hub.deliver(["a"], "1", "{}")
    writable = False
    hub.deliver(["a"], "2", "{}")
    writable = True
    hub.deliver(["a"], "3", "{}")
    assert frames == [frame(event_message("1", "a", "{}"))]
    assert waiting_messages(subscriber) == [
        event_message("2", "a", "{}"),
        event_message("3", "a", "{}"),
    ]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536])
def test_a_frame_equals_that_of_another_library(length: int) -> None:
    text = "x" * length
    expected = Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
    assert frame(text) == expected
    assert frame("\u00fc")[:2] == struct.pack("!BB", 0x81, 2)


def test_clients_are_refused_when_the_hub_is_full_or_stopping() -> None:
    hub = Hub(PusherSettings(sockets=1))
    assert hub.admit(()) is None
    assert hub.admit(()) is not None
    hub.leave(())
    assert hub.admit(()) is None
    hub.leave(())
    hub.stop()
    assert hub.admit(()) is not None


def test_one_client_gets_half_of_the_places_and_others_find_room() -> None:
    hub = Hub(PusherSettings(sockets=100))
    one, other = client_holders("2001:db8::1"), client_holders("192.0.2.1")
    ends = [hub.admit(one) for _ in range(60)]
    assert ends.count(None) == 50
    assert ends[-1] == CloseConnection(4100, "too many connections of one client")
    assert hub.admit(client_holders("2001:db8::2")) is not None
    assert hub.admit(other) is None


async def test_the_hub_is_empty_when_the_last_subscriber_has_left() -> None:
    hub = Hub(LIMITS)
    await hub.wait_until_empty()
    first, second = add_subscriber(hub, "1"), add_subscriber(hub, "2")
    async with asyncio.TaskGroup() as tasks:
        waiting_messages = tasks.create_task(hub.wait_until_empty())
        await asyncio.sleep(0)
        hub.remove(first)
        await asyncio.sleep(0)
        assert not waiting_messages.done()
        hub.remove(second)
