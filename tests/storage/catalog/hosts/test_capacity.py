"""A new stream goes to a host with room, and a running one stays where it is."""

import pytest

from storage.catalog import Catalog
from storage.catalog.hosts.capacity import HostLoad, choose_host
from tests.support.shared_engines import ON_BOTH

DEAD = 60.0  # seconds: no test takes as long
AT = "10.0.0.1:1937"


def load(host: int, streams: int, capacity: int | None, address: str | None = AT) -> HostLoad:
    return HostLoad(
        host=host, name=f"{host}", address=address, streams=streams, capacity=capacity
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "others", "chosen"),
    [
        pytest.param(load(1, 9, None), [load(2, 0, 5)], 1, id="as many as come"),
        pytest.param(load(1, 4, 5), [load(2, 0, 5)], 1, id="the last place"),
        pytest.param(load(1, 5, 5), [load(2, 4, 5), load(3, 1, 2)], 3, id="half, not four fifths"),
        pytest.param(load(1, 5, 5), [load(2, 0, None), load(3, 4, 5)], 3, id="a limit comes first"),
        pytest.param(load(1, 5, 5), [load(2, 3, None), load(3, 2, None)], 3, id="the fewest"),
        pytest.param(load(1, 5, 5), [load(2, 0, 0)], 1, id="one that stops"),
        pytest.param(load(1, 5, 5), [load(2, 0, 5, None)], 1, id="one that nobody reaches"),
        pytest.param(load(1, 6, 5), [load(2, 5, 5)], 1, id="nobody has room"),
        pytest.param(load(1, 0, 0), [load(2, 0, 5)], 2, id="it stops itself"),
        pytest.param(load(1, 5, 5), [], 1, id="alone"),
    ],
)
def test_the_host_that_has_room(first: HostLoad, others: list[HostLoad], chosen: int) -> None:
    assert choose_host(first, others).host == chosen


async def hosts(catalog: Catalog, *capacities: int | None) -> list[int]:
    register = catalog.hosts.register
    return [
        await register(f"{number}", "ingest", f"10.0.0.{number}:1937", "1", capacity)
        for number, capacity in enumerate(capacities)
    ]


async def claim(catalog: Catalog, stream: int, host: int, **more: int) -> int:
    owner = await catalog.owners.claim(stream, host, dead_seconds=DEAD, hand_over=True, **more)
    return owner.host


@ON_BOTH
async def test_a_full_host_hands_new_streams_over_and_keeps_its_own(catalog: Catalog) -> None:
    a, b, c = await hosts(catalog, 2, 2, None)
    assert [await claim(catalog, stream, a) for stream in (1, 2)] == [a, a]
    assert [await claim(catalog, stream, a) for stream in (3, 4)] == [b, b]
    assert [await claim(catalog, stream, a) for stream in (5, 6)] == [c, c]
    assert [await claim(catalog, stream, c) for stream in range(1, 7)] == [a, a, b, b, c, c]
    owner = await catalog.owners.claim(5, b, dead_seconds=DEAD)
    assert (owner.name, owner.address) == ("2", "10.0.0.2:1937")
    assert set(await catalog.owners.owned_by(c)) == {5, 6}


async def test_a_host_that_claims_a_stream_for_itself_gets_it_without_room(
    catalog: Catalog,
) -> None:
    a, _ = await hosts(catalog, 0, 5)
    assert (await catalog.owners.claim(1, a, dead_seconds=DEAD)).host == a


async def test_a_host_that_stops_gets_no_new_streams_and_keeps_its_own(catalog: Catalog) -> None:
    a, b, c = await hosts(catalog, 1, 5, 5)
    assert [await claim(catalog, stream, a) for stream in (1, 2)] == [a, b]
    await catalog.hosts.limit(b, 0)
    assert await claim(catalog, 3, a) == c
    assert await claim(catalog, 2, a) == b
    listed = await catalog.hosts.find_all(DEAD)
    assert [each.capacity for each in listed] == [1, 0, 5]


async def test_the_stream_of_a_host_that_has_ended_goes_where_there_is_room(
    catalog: Catalog,
) -> None:
    a, b, c = await hosts(catalog, 1, 1, 1)
    assert [await claim(catalog, stream, host) for stream, host in ((1, a), (2, b))] == [a, b]
    owner = await catalog.owners.claim(1, b, dead_seconds=DEAD)
    assert await claim(catalog, 1, b, ended_owner=owner.generation) == c


async def test_a_stream_does_not_go_back_to_the_host_that_has_ended(catalog: Catalog) -> None:
    a, b = await hosts(catalog, 5, 1)
    assert [await claim(catalog, stream, host) for stream, host in ((1, a), (2, b))] == [a, b]
    owner = await catalog.owners.claim(1, b, dead_seconds=DEAD)
    assert await claim(catalog, 1, b, ended_owner=owner.generation) == b
