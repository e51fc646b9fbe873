"""From rows to sockets: in order, once, and never silently lost."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from api.pusher.delivery import TOPIC, announcing_notices, delivering_notices
from api.pusher.hub import Hub, Subscriber
from api.pusher.limits import PusherSettings
from storage.bus.base import Bus, BusUnavailable
from storage.bus.memory import MemoryBus
from storage.catalog import Catalog, open_catalog
from storage.catalog.events.broadcast import KEPT_US, OutboxEvent, OutboxRecord
from storage.errors import CatalogError, CatalogUnavailable
from tests.support.api.application import NOW_US
from tests.support.e2e.service import SCALE

NEVER = 1000.0  # seconds between two polls: longer than any test, so that only the bus notifies
OFTEN = 0.01


class RecordingSubscriber(Subscriber):
    """A subscriber that records its messages."""

    def __init__(self, hub: Hub, *channels: str) -> None:
        super().__init__("1.1", PusherSettings())
        hub.add(self)
        for channel in channels:
            hub.subscribe(self, channel)

    async def receive(self, count: int) -> list[str]:
        async with asyncio.timeout(10 * SCALE):
            return [str(await self.next()) for _ in range(count)]


@pytest.fixture
async def catalog(catalog_database: str | Path) -> AsyncGenerator[Catalog]:
    async with open_catalog(catalog_database, migrate=isinstance(catalog_database, str)) as opened:
        await opened.installation.first_start(NOW_US)
        yield opened


async def publish_events(catalog: Catalog, *names: str, now_us: int = NOW_US) -> None:
    events = [OutboxEvent(channels=("a",), event=name, body="{}") for name in names]
    await catalog.outbox.publish(events, now_us)


def event_names(texts: list[str]) -> list[str]:
    return [text.split('"')[3] for text in texts]


async def test_published_events_are_delivered_at_once_and_in_order(
    catalog: Catalog, bus: Bus
) -> None:
    hub = Hub(PusherSettings())
    await publish_events(catalog, "before")
    subscriber = RecordingSubscriber(hub, "a")
    async with (
        announcing_notices(catalog.outbox, bus),
        delivering_notices(catalog.outbox, hub, bus, poll_seconds=NEVER),
    ):
        for number in range(20):
            await publish_events(catalog, f"{number}", f"{number}+")
        names = event_names(await subscriber.receive(40))
        assert names == [name for n in range(20) for name in (f"{n}", f"{n}+")]


async def test_a_state_is_sent_on_the_channels_of_its_record_and_its_project(
    catalog: Catalog, bus: Bus
) -> None:
    hub = Hub(PusherSettings())
    (stream,) = await catalog.streams.find_all()
    project = await catalog.projects.find("1")
    assert project is not None
    names = [
        f"stream.{stream.hash}",
        f"private-stream.{stream.hash}",
        "private-project.1",
        f"private-project.{project.key}",
    ]
    subscriber = RecordingSubscriber(hub, *names, "stream.other")
    async with (
        announcing_notices(catalog.outbox, bus),
        delivering_notices(catalog.outbox, hub, bus, poll_seconds=NEVER),
    ):
        await catalog.live_state.set(
            stream.id, live=True, processing=True, on_air=0, sending=[0], no_audio=False,
            now_us=NOW_US,
        )  # fmt: skip
        texts = await subscriber.receive(4)
    assert [text.split('"')[7] for text in texts] == names


async def test_events_of_another_process_are_found_by_polling(
    catalog: Catalog, catalog_database: str | Path, bus: Bus
) -> None:
    hub = Hub(PusherSettings())
    async with open_catalog(catalog_database, migrate=False) as other:
        subscriber = RecordingSubscriber(hub, "a")
        async with delivering_notices(catalog.outbox, hub, bus, poll_seconds=OFTEN):
            await publish_events(other, "x", "y")
            assert event_names(await subscriber.receive(2)) == ["x", "y"]


async def test_a_rolled_back_event_is_neither_delivered_nor_announced(
    catalog: Catalog, bus: Bus
) -> None:
    hub = Hub(PusherSettings())
    subscriber = RecordingSubscriber(hub, "a")
    async with (
        bus.subscribe(TOPIC) as messages,
        announcing_notices(catalog.outbox, bus),
        delivering_notices(catalog.outbox, hub, bus, poll_seconds=OFTEN),
    ):
        # The second channel cannot be stored, so the whole transaction is rolled back.
        broken = OutboxEvent(channels=("a", None), event="x", body="{}")  # pyright: ignore[reportArgumentType]  # on purpose
        with pytest.raises(CatalogError):
            await catalog.outbox.publish([broken], NOW_US)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await messages.get()
        await publish_events(catalog, "after")
        assert event_names(await subscriber.receive(1)) == ["after"]


class FakeNoticeStore:
    """Notices that the test adds, with gaps, and a catalog that can be unavailable."""

    def __init__(self) -> None:
        self.notices: list[int] = []
        self.first = 1
        self.away = False
        self.faults: list[Exception] = []  # raised one after the other
        self.reads = 0

    async def newest(self) -> int:
        return self.notices[-1] if self.notices else 0

    async def read_after(self, last: int, most: int) -> tuple[tuple[OutboxRecord, ...], bool]:
        self.reads += 1
        if self.away:
            raise CatalogUnavailable("away")
        if self.faults:
            raise self.faults.pop(0)
        records = [
            OutboxRecord(id=number, channel="a", event=f"{number}", body="{}", except_socket=None)
            for number in self.notices
            if number > last and number >= self.first
        ]
        return tuple(records[:most]), bool(records) and 0 < last < self.first - 1

    def on_commit(self, callback: object) -> None:
        """Do nothing."""


async def wait_for_reads(store: FakeNoticeStore, times: int) -> None:
    target = store.reads + times
    async with asyncio.timeout(10 * SCALE):
        while store.reads < target:  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0.005)


async def test_a_gap_in_the_numbers_neither_stops_nor_repeats_delivery() -> None:
    hub, store = Hub(PusherSettings()), FakeNoticeStore()
    store.notices = [1, 2]
    subscriber = RecordingSubscriber(hub, "a")
    async with delivering_notices(store, hub, MemoryBus(), poll_seconds=OFTEN):
        store.notices += [5]
        assert event_names(await subscriber.receive(1)) == ["5"]
        store.notices += [9, 10]
        assert event_names(await subscriber.receive(2)) == ["9", "10"]
        await wait_for_reads(store, 3)
        assert subscriber.end is None


async def test_subscribers_reconnect_after_unread_notices_were_trimmed() -> None:
    hub, store = Hub(PusherSettings()), FakeNoticeStore()
    store.notices = [1, 2]
    subscriber = RecordingSubscriber(hub, "a")
    async with delivering_notices(store, hub, MemoryBus(), poll_seconds=OFTEN):
        store.first, store.notices = 40, [*range(3, 50)]
        await wait_for_reads(store, 2)
        assert subscriber.end is not None
        assert subscriber.end.code == 4200
        late = RecordingSubscriber(hub, "a")
        store.notices += [50]
        assert event_names(await late.receive(1)) == ["50"], "who comes back hears what follows"


async def test_an_unavailable_catalog_is_queried_again_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, store = Hub(PusherSettings()), FakeNoticeStore()
    subscriber = RecordingSubscriber(hub, "a")
    with caplog.at_level(logging.INFO, "api.pusher.delivery"):
        async with delivering_notices(store, hub, MemoryBus(), poll_seconds=OFTEN):
            store.away = True
            await wait_for_reads(store, 3)
            store.notices, store.away = [1, 2], False
            assert event_names(await subscriber.receive(2)) == ["1", "2"]
            await wait_for_reads(store, 2)
    assert [each.message for each in caplog.records] == [
        "notices not read",
        "notices are on time again",
    ]
    assert subscriber.end is None, "nothing was lost"


async def test_subscribers_reconnect_after_a_long_catalog_outage() -> None:
    hub, store = Hub(PusherSettings()), FakeNoticeStore()
    subscriber = RecordingSubscriber(hub, "a")
    now = 0.0
    async with delivering_notices(store, hub, MemoryBus(), poll_seconds=OFTEN, clock=lambda: now):
        await wait_for_reads(store, 1)
        now = KEPT_US / 1_000_000
        store.notices = [1, 2]
        await wait_for_reads(store, 2)
        assert subscriber.end is not None
        assert subscriber.end.code == 4200


class UnreachableBus:
    """A bus that cannot be reached."""

    is_connected = False

    def __init__(self) -> None:
        self.attempts = 0
        self.subscribe = MemoryBus().subscribe

    async def publish(self, topic: str, data: bytes) -> None:
        self.attempts += 1
        raise BusUnavailable("gone")


async def test_without_the_bus_events_are_only_delivered_later(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    hub, unreachable = Hub(PusherSettings()), UnreachableBus()
    bus: Bus = unreachable
    subscriber = RecordingSubscriber(hub, "a")
    async with (
        announcing_notices(catalog.outbox, bus),
        delivering_notices(catalog.outbox, hub, bus, poll_seconds=OFTEN),
    ):
        for name in ("x", "y", "z"):
            await publish_events(catalog, name)
            assert event_names(await subscriber.receive(1)) == [name]
    assert unreachable.attempts >= 1
    # Alembic may log, too, if another test has configured it.
    messages = [each.message for each in caplog.records if not each.name.startswith("alembic")]
    assert messages == ["notices are delayed"]


async def test_old_notices_are_trimmed_and_new_ones_stay(catalog: Catalog) -> None:
    await publish_events(catalog, *(f"{n}" for n in range(60)))
    await publish_events(catalog, *(f"new{n}" for n in range(60)), now_us=NOW_US + KEPT_US + 1)
    records, incomplete = await catalog.outbox.read_after(5, 1000)
    assert incomplete
    assert {each.event[:3] for each in records} == {"new"}
    assert (await catalog.outbox.read_after(records[3].id, 1000))[1] is False


async def test_an_unexpected_fault_is_logged_once_and_delivery_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, store = Hub(PusherSettings()), FakeNoticeStore()
    subscriber = RecordingSubscriber(hub, "a")
    async with delivering_notices(store, hub, MemoryBus(), poll_seconds=OFTEN):
        store.faults += [KeyError("gone"), KeyError("gone")]
        store.notices += [1, 2]
        assert event_names(await subscriber.receive(2)) == ["1", "2"]
    (logged,) = [each for each in caplog.records if each.msg == "notices not delivered"]
    assert logged.exc_info is not None
