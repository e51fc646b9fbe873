import msgspec

from ingest.publishing.admission import Admission, AdmissionLimits

LIMITS = AdmissionLimits(
    connections=5,
    connections_per_address=3,
    new_per_address_per_second=2,
    wrong_keys_per_minute=2,
)


def test_the_connections_of_an_address_are_limited() -> None:
    admissions = Admission(LIMITS)
    assert [admissions.admit("a", at) for at in (0.0, 2.0, 4.0)] == [None, None, None]
    assert admissions.admit("a", 6.0) == "too many connections from one address"
    assert admissions.admit("b", 6.0) is None
    admissions.release("a")
    assert admissions.admit("a", 8.0) is None


def test_all_addresses_together_are_limited() -> None:
    admissions = Admission(LIMITS)
    assert all(admissions.admit(address, 0.0) is None for address in "abcde")
    assert admissions.admit("f", 0.0) == "too many connections"


def test_new_connections_of_an_address_are_limited_in_rate() -> None:
    admissions = Admission(LIMITS)
    assert admissions.admit("a", 0.0) is None
    assert admissions.admit("a", 0.1) is None
    assert admissions.admit("a", 0.2) == "too many new connections from one address"
    assert admissions.admit("a", 1.5) is None


def test_wrong_keys_are_answered_late_and_their_address_stays_admitted() -> None:
    admissions = Admission(LIMITS)  # two a minute
    delays = [admissions.count_wrong_key("a", 0.0) for _ in range(4)]
    assert delays == [0.0, 0.0, None, None]
    assert admissions.admit("a", 1.0) is None
    assert admissions.count_wrong_key("a", 20.0) == 10.0
    assert admissions.count_wrong_key("a", 21.0) is None
    assert admissions.count_wrong_key("b", 21.0) == 0.0
    assert admissions.count_wrong_key("a", 200.0) == 0.0


def test_wrong_keys_of_one_encoder_that_reconnects_wait_for_their_turn() -> None:
    admissions = Admission(msgspec.structs.replace(LIMITS, wrong_keys_per_minute=10))
    delays = [admissions.count_wrong_key("a", 0.0) for _ in range(20)]
    assert delays == [*[0.0] * 10, 6.0, 12.0, *[None] * 8]


def test_expired_entries_take_no_memory() -> None:
    admissions = Admission(LIMITS)
    for number in range(1000):
        admissions.count_wrong_key(str(number), 0.0)
    admissions.expire(100.0)
    assert not admissions._wrong_until  # pyright: ignore[reportPrivateUsage]  # the memory is the point


def test_other_addresses_of_a_network_share_its_limits() -> None:
    admissions = Admission(LIMITS)
    assert admissions.count_wrong_key("2001:db8::1", 0.0) == 0.0
    assert admissions.count_wrong_key("2001:db8::2", 0.0) == 0.0
    assert admissions.count_wrong_key("2001:db8::3", 1.0) is None
    assert admissions.count_wrong_key("2001:db8:0:1::3", 1.0) == 0.0
