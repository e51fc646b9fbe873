"""The catalog's half of the lease of its store: turns before and after they are written there."""

from pathlib import Path

from storage.catalog import Catalog
from tests.support.sql import run_sql


async def test_a_turn_is_known_before_it_is_written_and_stays_until_that_is_known(
    catalog: Catalog,
) -> None:
    claims = catalog.store_claims
    assert (await claims.read()).turns == frozenset()
    begun = await claims.begin("a")
    assert (begun.turns, begun.age > 1e6, begun.tried < 60) == ({"a"}, True, True)
    # The process died, or the answer of the store was lost: "a" may have been written.
    again = await claims.begin("b")
    assert (again.next_turn, again.turns) == ("a", {"a"})
    await claims.confirm("a", again.began_us)
    confirmed = await claims.read()
    assert (confirmed.turn, confirmed.next_turn) == ("a", "")
    assert confirmed.age < 60
    await claims.begin("c")
    assert (await claims.read()).turns == {"a", "c"}


async def test_a_late_confirmation_does_not_forget_the_turn_that_follows(catalog: Catalog) -> None:
    claims = catalog.store_claims
    first = await claims.begin("a")
    await claims.confirm("a", first.began_us)
    await claims.begin("b")
    await claims.confirm("a", first.began_us)
    assert (await claims.read()).turns == {"a", "b"}


async def test_a_turn_is_adopted_that_the_catalog_has_lost(catalog: Catalog) -> None:
    claims = catalog.store_claims
    await claims.confirm((await claims.begin("a")).next_turn, 1)
    await claims.begin("b")
    await claims.adopt("newer")
    assert (await claims.read()).turns == {"newer"}


async def test_a_clock_that_was_set_back_makes_a_claim_old(
    catalog: Catalog, location: str | Path
) -> None:
    claims = catalog.store_claims
    begun = await claims.begin("a")
    await claims.confirm("a", begun.began_us)
    run_sql(location, "UPDATE store_claims SET confirmed_us = confirmed_us + 3600000000")
    assert 3500 < (await claims.read()).age <= 3600


async def test_the_place_of_a_catalog_stays(catalog: Catalog) -> None:
    place = await catalog.store_claims.place()
    assert place
    assert await catalog.store_claims.place() == place
