"""Subscriptions within one process: topics apart, mailboxes together, nothing left behind."""

import asyncio

import pytest

from storage.bus.base import BusMessage, Mailbox, MessagesLost
from storage.bus.memory import MemoryBus, Topics


def waiting(box: Mailbox) -> bool:
    """Whether there is no message: then `get` would wait."""
    reading = box.get()
    try:
        reading.send(None)
    except StopIteration:
        return False
    reading.close()
    return True


async def test_a_message_reaches_every_mailbox_of_its_topic_and_no_other() -> None:
    bus = MemoryBus()
    async with bus.subscribe("a") as one, bus.subscribe("a", "b") as two, bus.subscribe("b") as far:
        await bus.publish("a", b"1")
        assert await one.get() == await two.get() == BusMessage("a", b"1")
        assert waiting(one)
        assert waiting(two)
        assert waiting(far)


async def test_a_topic_named_twice_is_subscribed_once() -> None:
    bus = MemoryBus()
    async with bus.subscribe("a", "a") as box:
        await bus.publish("a", b"1")
        assert await box.get() == BusMessage("a", b"1")
        assert waiting(box)


async def test_a_subscription_ends_with_its_block_whatever_ends_that() -> None:
    topics = Topics()
    boxes: list[Mailbox] = []
    with pytest.raises(asyncio.CancelledError):
        async with topics.subscribe(["a"]) as box:
            boxes.append(box)
            raise asyncio.CancelledError
    topics.deliver("a", b"1")
    topics.mark_lost()
    assert [waiting(box) for box in boxes] == [True]


async def test_a_loss_is_marked_once_in_each_mailbox_of_any_topic() -> None:
    topics = Topics()
    async with topics.subscribe(["a", "b"]) as both, topics.subscribe(["b"]) as other:
        topics.deliver("b", b"1")
        topics.mark_lost()
        for box in (both, other):
            assert await box.get() == MessagesLost()
            assert waiting(box)


@pytest.mark.parametrize("topic", ["", "a b", "a" * 300])
async def test_what_is_no_topic_is_refused(topic: str) -> None:
    bus = MemoryBus()
    with pytest.raises(ValueError, match="topic"):
        await bus.publish(topic, b"1")
    with pytest.raises(ValueError, match="topic"):
        async with bus.subscribe(topic):
            pass
