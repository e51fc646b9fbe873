"""Places shared among clients."""

from collections.abc import Iterator

from media.fair_share import FairShare, Holder, Refusal, client_holders


def acquire_all(share: FairShare, *holders: Holder) -> int:
    """Take all places that these holders get, and return their number."""
    count = 0
    while share.acquire(holders) is None:
        count += 1
    return count


def addresses(prefix: str) -> Iterator[str]:
    return (f"{prefix}:{number:x}::1" for number in range(1 << 12))


def test_one_client_gets_half_of_the_places_and_the_next_half_of_the_rest() -> None:
    share = FairShare(1024)
    assert [acquire_all(share, Holder(f"client {number}")) for number in range(5)] == [
        512, 256, 128, 64, 32,
    ]  # fmt: skip
    assert share.acquire((Holder("newcomer"),)) is None


def test_the_last_place_goes_to_a_newcomer_and_then_all_are_taken() -> None:
    share = FairShare(2)
    assert acquire_all(share, Holder("first")) == 1
    assert share.acquire((Holder("first"),)) is Refusal.SHARE
    assert share.acquire((Holder("second"),)) is None
    assert share.acquire((Holder("third"),)) is Refusal.ALL
    assert len(share) == 2


def test_a_place_that_is_given_back_can_be_taken_again() -> None:
    share = FairShare(4)
    mine = (Holder("mine"),)
    assert acquire_all(share, *mine) == 2
    share.release(mine)
    assert share.acquire(mine) is None
    share.release(mine)
    share.release(mine)
    assert len(share) == 0
    assert acquire_all(share, *mine) == 2


def test_a_client_with_many_addresses_is_one_client() -> None:
    share = FairShare(1000)
    results = [share.acquire(client_holders(f"2001:db8:1:2::{number:x}")) for number in range(1000)]
    assert results.count(None) == 500


def test_a_client_with_many_networks_gets_two_thirds() -> None:
    share = FairShare(900)
    results = [share.acquire(client_holders(each)) for each in addresses("2001:db8:1")]
    assert results.count(None) == 600
    assert share.acquire(client_holders("2001:db8:2::1")) is None
    assert share.acquire(client_holders("192.0.2.1")) is None


def test_a_holder_may_have_a_fixed_bound_too() -> None:
    share = FairShare(100)
    link = Holder("link", most=2)
    assert acquire_all(share, link) == 2
    assert acquire_all(share, link, Holder("project")) == 0
    assert acquire_all(share, Holder("project")) == 49


def test_a_place_is_charged_to_the_client_behind_a_proxy_while_it_serves_it() -> None:
    share = FairShare(100)
    for _ in range(60):
        assert share.acquire(()) is None
    viewer = client_holders("192.0.2.1")
    assert [share.charge(viewer) for _ in range(100)].count(True) == 40
    assert share.charge(client_holders("192.0.2.2"))
    share.discharge(viewer)
    assert share.charge(viewer)


def test_clients_without_an_address_count_only_in_the_total() -> None:
    assert acquire_all(FairShare(10), *client_holders("")) == 10


def test_places_that_would_be_given_up_count_as_free() -> None:
    share = FairShare(8)
    assert [share.acquire(()) for _ in range(8)] == [None] * 8
    mine = (Holder("mine"),)
    assert share.acquire(mine) is Refusal.ALL
    share.spare = 4
    assert not share.is_exceeded
    assert [share.acquire(mine) for _ in range(3)] == [None, None, Refusal.SHARE]
    assert share.is_exceeded, "the caller has two of them given up"
