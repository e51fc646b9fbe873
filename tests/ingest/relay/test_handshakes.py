"""Handshakes of strangers are limited, so that hosts can still connect."""

from ingest.relay.handshakes import AT_ONCE, OF_ONE_NETWORK, Handshakes


def address(number: int) -> str:
    return f"192.0.{number // 256}.{number % 256}"


def test_one_network_has_few_handshakes_at_once() -> None:
    handshakes = Handshakes()
    assert all(handshakes.begin("192.0.2.1") for _ in range(OF_ONE_NETWORK))
    assert not handshakes.begin("192.0.2.1")
    assert handshakes.begin("192.0.2.2")
    handshakes.end("192.0.2.1", authenticated=False)
    assert handshakes.begin("192.0.2.1")
    assert not handshakes.begin("192.0.2.1")


def test_addresses_of_one_network_count_together() -> None:
    handshakes = Handshakes()
    assert all(handshakes.begin(f"2001:db8::{number + 1}") for number in range(OF_ONE_NETWORK))
    assert not handshakes.begin("2001:db8::ffff")
    assert handshakes.begin("2001:db8:0:1::1")


def test_strangers_leave_hosts_their_places() -> None:
    handshakes = Handshakes()
    assert handshakes.begin("198.51.100.1")
    handshakes.end("198.51.100.1", authenticated=True)
    assert all(handshakes.begin(address(number)) for number in range(AT_ONCE))
    assert not handshakes.begin("198.51.100.2")
    assert all(handshakes.begin("198.51.100.1") for _ in range(OF_ONE_NETWORK))
    assert len(handshakes) == AT_ONCE + OF_ONE_NETWORK
    for number in range(AT_ONCE):
        handshakes.end(address(number), authenticated=False)
    for _ in range(OF_ONE_NETWORK):
        handshakes.end("198.51.100.1", authenticated=True)
    assert len(handshakes) == 0


def test_only_so_many_hosts_are_remembered() -> None:
    handshakes = Handshakes()
    for number in range(AT_ONCE + 1):
        assert handshakes.begin(address(number))
        handshakes.end(address(number), authenticated=True)
    strangers = [f"203.0.113.{number}" for number in range(256)]
    assert all(handshakes.begin(each) for each in strangers)
    assert not handshakes.begin(address(0))
    assert handshakes.begin(address(AT_ONCE))


def test_the_refusals_of_a_network_are_logged_once_a_minute() -> None:
    handshakes = Handshakes()
    assert handshakes.should_log_refusal("192.0.2.1", 0.0)
    assert handshakes.should_log_refusal("2001:db8::1", 0.0)
    # One peer may have all addresses of its /64.
    assert not any(handshakes.should_log_refusal(f"2001:db8::{n:x}", 59.9) for n in range(1000))
    assert handshakes.should_log_refusal("2001:db8::2", 60.0)


def test_the_refusals_of_many_networks_are_logged_at_most_256_times_a_minute() -> None:
    handshakes = Handshakes()
    logged = [handshakes.should_log_refusal(f"2001:db8:0:{n:x}::1", n / 100) for n in range(5_000)]
    assert sum(logged) == AT_ONCE
    assert handshakes.should_log_refusal("192.0.2.1", 110.0)
