import pytest

from ingest.rtmp.limits import Limits
from ingest.server.admission import Doors, site_of

LIMITS = Limits(
    connections=5,
    connections_per_address=3,
    new_per_address_per_second=2,
    wrong_keys_per_minute=2,
)


def test_an_address_has_its_share_and_no_more() -> None:
    doors = Doors(LIMITS)
    assert [doors.enter("a", at) for at in (0.0, 2.0, 4.0)] == [None, None, None]
    assert doors.enter("a", 6.0) == "too many connections from one address"
    assert doors.enter("b", 6.0) is None
    doors.leave("a")
    assert doors.enter("a", 8.0) is None


def test_all_together_have_their_share() -> None:
    doors = Doors(LIMITS)
    assert all(doors.enter(address, 0.0) is None for address in "abcde")
    assert doors.enter("f", 0.0) == "too many connections"


def test_a_rush_of_one_address_is_slowed() -> None:
    doors = Doors(LIMITS)
    assert doors.enter("a", 0.0) is None
    assert doors.enter("a", 0.1) is None
    assert doors.enter("a", 0.2) == "too many new connections from one address"
    assert doors.enter("a", 1.5) is None


def test_wrong_keys_shut_an_address_out_for_a_minute() -> None:
    doors = Doors(LIMITS)
    doors.wrong_key("a", 0.0)
    doors.wrong_key("a", 1.0)
    assert doors.enter("a", 2.0) == "too many wrong keys from one address"
    assert doors.enter("b", 2.0) is None
    assert doors.enter("a", 61.5) is None


def test_what_is_forgotten_takes_no_memory() -> None:
    doors = Doors(LIMITS)
    for number in range(1000):
        doors.wrong_key(str(number), 0.0)
    doors.forget(100.0)
    assert not doors._wrong  # pyright: ignore[reportPrivateUsage]  # the memory is the point


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("?", "?"),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, site: str) -> None:
    assert site_of(address) == site


def test_other_addresses_of_a_network_share_its_limits() -> None:
    doors = Doors(LIMITS)
    doors.wrong_key("2001:db8::1", 0.0)
    doors.wrong_key("2001:db8::2", 0.0)
    assert doors.enter("2001:db8::3", 1.0) == "too many wrong keys from one address"
    assert doors.enter("2001:db8:0:1::3", 1.0) is None
    doors.leave("2001:db8:0:1::4")
