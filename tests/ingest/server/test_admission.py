from ingest.rtmp.limits import Limits
from ingest.server.admission import Admission

LIMITS = Limits(
    connections=5,
    connections_per_address=3,
    new_per_address_per_second=2,
    wrong_keys_per_minute=2,
)


def test_an_address_has_its_share_and_no_more() -> None:
    doors = Admission(LIMITS)
    assert [doors.admit("a", at) for at in (0.0, 2.0, 4.0)] == [None, None, None]
    assert doors.admit("a", 6.0) == "too many connections from one address"
    assert doors.admit("b", 6.0) is None
    doors.release("a")
    assert doors.admit("a", 8.0) is None


def test_all_together_have_their_share() -> None:
    doors = Admission(LIMITS)
    assert all(doors.admit(address, 0.0) is None for address in "abcde")
    assert doors.admit("f", 0.0) == "too many connections"


def test_a_rush_of_one_address_is_slowed() -> None:
    doors = Admission(LIMITS)
    assert doors.admit("a", 0.0) is None
    assert doors.admit("a", 0.1) is None
    assert doors.admit("a", 0.2) == "too many new connections from one address"
    assert doors.admit("a", 1.5) is None


def test_wrong_keys_shut_an_address_out_for_a_minute() -> None:
    doors = Admission(LIMITS)
    doors.count_wrong_key("a", 0.0)
    doors.count_wrong_key("a", 1.0)
    assert doors.admit("a", 2.0) == "too many wrong keys from one address"
    assert doors.admit("b", 2.0) is None
    assert doors.admit("a", 61.5) is None


def test_what_is_forgotten_takes_no_memory() -> None:
    doors = Admission(LIMITS)
    for number in range(1000):
        doors.count_wrong_key(str(number), 0.0)
    doors.expire(100.0)
    assert not doors._wrong  # pyright: ignore[reportPrivateUsage]  # the memory is the point


def test_other_addresses_of_a_network_share_its_limits() -> None:
    doors = Admission(LIMITS)
    doors.count_wrong_key("2001:db8::1", 0.0)
    doors.count_wrong_key("2001:db8::2", 0.0)
    assert doors.admit("2001:db8::3", 1.0) == "too many wrong keys from one address"
    assert doors.admit("2001:db8:0:1::3", 1.0) is None
    doors.release("2001:db8:0:1::4")
