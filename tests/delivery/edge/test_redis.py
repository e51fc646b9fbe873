"""The edge in a real Redis: order, generations, expiry, outages."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import msgspec
import pytest

from delivery.edge.redis import (
    EdgeUnavailable,
    EdgeWrite,
    RedisEdgeStore,
    WriteOutcome,
    open_edge_store,
)
from storage.bus.base import BusMessage, BusUnavailable, MessagesLost
from tests.support.redis_server import RedisServer, redis_server
from tests.support.waiting import until

HASH = "abcdefABCDEF"
PART = f"live/{HASH}/20260131T120000123/720p/0.0.m4s"
WHOLE = EdgeWrite(stream=HASH, generation=1, revision=7, whole=b"whole")
NEXT = EdgeWrite(stream=HASH, generation=1, base=7, revision=8, change=b"change")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncGenerator[RedisEdgeStore, None]:
    server.command("FLUSHALL")
    async with open_edge_store(server.url, namespace="one") as opened:
        yield opened


async def test_a_state_is_its_whole_and_the_changes_since(store: RedisEdgeStore) -> None:
    assert await store.read_state(HASH) is None
    assert await store.read_revision(HASH) is None
    third = msgspec.structs.replace(NEXT, base=8, revision=9, change=b"third")
    outcomes = [WriteOutcome.DONE]
    assert [await store.write([each]) for each in (WHOLE, NEXT, third)] == [outcomes] * 3
    assert await store.read_state(HASH) == [b"whole", b"change", b"third"]
    assert await store.read_revision(HASH) == 9
    again = msgspec.structs.replace(third, base=9, revision=10, whole=b"again")
    assert await store.write([again]) == outcomes
    assert await store.read_state(HASH) == [b"again"]


async def test_a_change_of_another_revision_changes_nothing(store: RedisEdgeStore) -> None:
    assert await store.write([NEXT]) == [WriteOutcome.BEHIND]
    assert await store.read_state(HASH) is None
    await store.write([WHOLE])
    other = msgspec.structs.replace(NEXT, base=6)
    assert await store.write([other, NEXT]) == [WriteOutcome.BEHIND, WriteOutcome.DONE]
    assert await store.read_state(HASH) == [b"whole", b"change"]


async def test_a_process_whose_generation_is_over_changes_nothing(store: RedisEdgeStore) -> None:
    newer = msgspec.structs.replace(WHOLE, generation=2, parts=[(PART, b"new", 9.0)])
    assert await store.write([newer]) == [WriteOutcome.DONE]
    for old in (WHOLE, NEXT):
        with_part = msgspec.structs.replace(old, parts=[(PART, b"old", 9.0)], dropped=[PART])
        assert await store.write([with_part]) == [WriteOutcome.FENCED]
    assert await store.read_part(PART, 2) == b"new"
    assert await store.read_state(HASH) == [b"whole"]
    assert await store.read_revision(HASH) == 7


async def test_the_next_process_takes_over_what_the_last_one_wrote(store: RedisEdgeStore) -> None:
    """From then on the last one changes nothing, and the state is still that which it wrote."""
    assert await store.take_over(HASH, 2) is None
    assert await store.write([WHOLE]) == [WriteOutcome.FENCED]
    first = msgspec.structs.replace(WHOLE, generation=2, parts=[(PART, b"part", 9.0)])
    second = msgspec.structs.replace(NEXT, generation=2)
    assert await store.write([first, second]) == [WriteOutcome.DONE] * 2
    for _ in range(2):
        assert await store.take_over(HASH, 3) == [b"whole", b"change"]
    third = msgspec.structs.replace(second, base=8, revision=9)
    assert await store.write([third]) == [WriteOutcome.FENCED]
    assert await store.take_over(HASH, 2) is None
    assert await store.read_state(HASH) == [b"whole", b"change"]
    assert await store.read_parts([PART + "2", PART], 2) == {PART: b"part"}
    assert await store.read_parts([PART], 3) == {}
    many = [f"{PART}{number}" for number in range(100)]
    parts = [(address, address.encode(), 9.0) for address in many]
    await store.write([msgspec.structs.replace(WHOLE, generation=3, parts=parts, whole=b"")])
    assert await store.read_parts(many, 3) == {address: address.encode() for address in many}


async def test_streams_are_written_together_and_judged_apart(store: RedisEdgeStore) -> None:
    other = msgspec.structs.replace(NEXT, stream="ABCDEFabcdef")
    parts = msgspec.structs.replace(WHOLE, parts=[(PART, b"1", 9.0), (PART + "2", b"2", 9.0)])
    nothing = EdgeWrite(stream=HASH, generation=1)
    assert await store.write([other, nothing, parts]) == [
        WriteOutcome.BEHIND,
        WriteOutcome.DONE,
        WriteOutcome.DONE,
    ]
    drop = EdgeWrite(stream=HASH, generation=1, dropped=[PART, PART + "2"])
    assert [await store.read_part(each, 1) for each in (PART, PART + "2")] == [b"1", b"2"]
    assert await store.write([drop]) == [WriteOutcome.DONE]
    assert [await store.read_part(each, 1) for each in (PART, PART + "2")] == [None, None]


async def test_subscribers_get_changes_and_are_told_to_read_the_rest(
    store: RedisEdgeStore,
) -> None:
    async with (
        store.receive_changes() as bus,
        bus.subscribe(HASH) as box,
        asyncio.timeout(10),
    ):
        assert await box.get() == MessagesLost()
        await store.write([WHOLE])
        await store.write([NEXT])
        whole = msgspec.structs.replace(NEXT, base=8, revision=9, change=b"9", whole=b"all")
        await store.write([whole, msgspec.structs.replace(WHOLE, revision=20)])
        await store.write([msgspec.structs.replace(NEXT, generation=0)])  # over
        await store.write([msgspec.structs.replace(NEXT, base=20, revision=21, change=b"21")])
        changes = [await box.get() for _ in range(5)]
    assert changes == [BusMessage(HASH, data) for data in (b"", b"change", b"9", b"", b"21")]


async def test_all_that_is_written_expires(server: RedisServer) -> None:
    server.command("FLUSHALL")
    async with open_edge_store(server.url, namespace="ttl", state_seconds=0.2) as store:
        await store.write([msgspec.structs.replace(WHOLE, parts=[(PART, b"data", 0.2)]), NEXT])
        for key in server.command("KEYS", "*"):
            assert server.command("PTTL", key) != -1
        await until(lambda: server.command("DBSIZE") == 1)
        assert await store.read_state(HASH) is None
        assert await store.read_part(PART, 1) is None
        # The newest generation is remembered for longer.
        old = msgspec.structs.replace(WHOLE, generation=0)
        assert await store.write([old]) == [WriteOutcome.FENCED]


async def test_a_redis_that_is_away_is_an_error_of_the_edge_and_comes_back(
    tmp_path: Path,
) -> None:
    with redis_server(tmp_path) as server:
        async with open_edge_store(server.url, namespace="one") as store:
            await store.write([WHOLE])
            async with store.receive_changes() as bus, bus.subscribe(HASH) as box:
                await box.get()
                server.stop()
                with pytest.raises(EdgeUnavailable):
                    await store.write([NEXT])
                with pytest.raises(EdgeUnavailable):
                    await store.read_state(HASH)
                with pytest.raises(EdgeUnavailable):
                    await store.read_part(PART, 1)
                server.start()
                async with asyncio.timeout(20):
                    assert await box.get() == MessagesLost()
                assert await store.write([NEXT]) == [WriteOutcome.BEHIND]


async def test_a_redis_that_does_not_answer_is_waited_for_in_bounds(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with open_edge_store(server.url, namespace="one") as store:
            await store.write([WHOLE])
            server.freeze()
            with pytest.raises(EdgeUnavailable):
                async with asyncio.timeout(60):
                    await store.read_part(PART, 1)
            server.thaw()
            assert await store.read_state(HASH) == [b"whole"]


async def test_what_is_no_address_of_redis_is_refused() -> None:
    with pytest.raises(BusUnavailable, match=r"no redis:// URL$"):
        async with open_edge_store("https://u:secret@example.org", namespace="one"):
            pass


async def test_installations_that_share_a_redis_are_separate(
    store: RedisEdgeStore, server: RedisServer
) -> None:
    await store.write([WHOLE])
    async with open_edge_store(server.url, namespace="two") as other:
        assert await other.read_state(HASH) is None
        assert await other.write([NEXT]) == [WriteOutcome.BEHIND]
