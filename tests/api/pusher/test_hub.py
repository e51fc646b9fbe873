"""Which subscribers get which messages, and what happens to those that do not read."""

import asyncio
import struct

import pytest
from websockets.frames import Frame, Opcode

from api.http.fair_share import client_holders
from api.pusher.hub import Hub, Subscriber, frame
from api.pusher.limits import PusherSettings
from api.pusher.protocol import CloseConnection, event_message

LIMITS = PusherSettings(waiting=8, waiting_bytes=20_000)


def listener(hub: Hub, name: str, *channels: str) -> Subscriber:
    made = Subscriber(name, LIMITS)
    hub.add(made)
    for channel in channels:
        hub.subscribe(made, channel)
    return made


def waiting(of: Subscriber) -> list[str]:
    """Return the waiting messages, up to the end."""

    async def take() -> list[str]:
        of.close(CloseConnection(4200, "the test is over"))
        found: list[str] = []
        while (text := await of.next()) is not None:
            found.append(text)
        return found

    return asyncio.run(take())


def test_an_event_goes_to_its_channel_and_besides_whom_it_names() -> None:
    hub = Hub(LIMITS)
    one, two, other = listener(hub, "1", "a"), listener(hub, "2", "a", "b"), listener(hub, "3", "b")
    hub.deliver(["a"], "live", "{}", except_socket="1")
    hub.deliver(["a", "b", "nobody's"], "live", "[]")
    assert waiting(one) == [event_message("live", "a", "[]")]
    assert waiting(two) == [
        event_message("live", "a", "{}"),
        event_message("live", "a", "[]"),
        event_message("live", "b", "[]"),
    ]
    assert waiting(other) == [event_message("live", "b", "[]")]


def test_a_channel_without_subscribers_takes_no_memory() -> None:
    hub = Hub(LIMITS)
    made = listener(hub, "1")
    for number in range(1000):
        hub.subscribe(made, f"c{number}")
        hub.unsubscribe(made, f"c{number}")
    assert hub.channels == 0
    hub.subscribe(made, "a")
    hub.unsubscribe(made, "never heard")
    hub.remove(made)
    assert (hub.channels, len(hub)) == (0, 0)


@pytest.mark.parametrize(("data", "most"), [("x", 8), ("x" * 6_000, 3)], ids=["count", "bytes"])
def test_a_subscriber_that_does_not_read_is_disconnected_at_the_bound(data: str, most: int) -> None:
    hub = Hub(LIMITS)
    slow = listener(hub, "1", "a")
    left: list[float] = []
    slow.on_close = left.append
    for _ in range(most):
        hub.deliver(["a"], "live", data)
        assert slow.end is None
    hub.deliver(["a"], "live", data)
    assert slow.end is not None
    assert slow.end.code == 4100
    assert left == [0], "its writer is not to wait"
    assert waiting(slow) == [], "what waited takes no room any more"


def test_the_first_reason_to_end_stands_and_nothing_is_added_after_it() -> None:
    hub = Hub(LIMITS)
    made = listener(hub, "1", "a")
    hub.deliver(["a"], "before", "{}")
    hub.reconnect("events are missing")
    hub.deliver(["a"], "after", "{}")
    hub.stop()
    assert waiting(made) == [event_message("before", "a", "{}")]
    assert made.end == CloseConnection(4200, "events are missing")


def test_a_frame_that_can_leave_at_once_does_not_wait_and_none_overtakes() -> None:
    hub = Hub(LIMITS)
    made = listener(hub, "1", "a")
    sent: list[bytes] = []
    takes = True

    def write(data: bytes) -> bool:
        if takes:
            sent.append(data)
        return takes

    made.send_frame = write
    hub.deliver(["a"], "1", "{}")
    takes = False
    hub.deliver(["a"], "2", "{}")
    takes = True
    hub.deliver(["a"], "3", "{}")
    assert sent == [frame(event_message("1", "a", "{}"))]
    assert waiting(made) == [event_message("2", "a", "{}"), event_message("3", "a", "{}")]


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536])
def test_a_frame_is_what_others_make_of_the_text(length: int) -> None:
    text = "x" * length
    expected = Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
    assert frame(text) == expected
    assert frame("\u00fc")[:2] == struct.pack("!BB", 0x81, 2)


def test_nobody_comes_in_where_there_is_no_room_or_it_stops() -> None:
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


async def test_stopping_is_over_when_the_last_has_left() -> None:
    hub = Hub(LIMITS)
    await hub.wait_until_empty()
    one, two = listener(hub, "1"), listener(hub, "2")
    async with asyncio.TaskGroup() as tasks:
        over = tasks.create_task(hub.wait_until_empty())
        await asyncio.sleep(0)
        hub.remove(one)
        await asyncio.sleep(0)
        assert not over.done()
        hub.remove(two)
