"""The client's address of a request, directly or behind proxies."""

import pytest

from api.http.client_address import BadNetwork, TrustedProxies, parse_address

OURS = TrustedProxies.parse("10.0.0.0/8, 2001:db8:ffff::/48 192.0.2.1")


def forwarded(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-forwarded-for", value.encode()) for value in values]


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        pytest.param("198.51.100.7", [], "198.51.100.7", id="no proxy"),
        pytest.param("198.51.100.7", ["203.0.113.7"], "198.51.100.7", id="a stranger says so"),
        pytest.param("10.1.2.3", ["203.0.113.7"], "203.0.113.7", id="a proxy of ours says so"),
        pytest.param("10.1.2.3", ["6.6.6.6, 203.0.113.7"], "203.0.113.7", id="made up before"),
        pytest.param("10.1.2.3", ["6.6.6.6", "203.0.113.7"], "203.0.113.7", id="in two headers"),
        pytest.param(
            "10.1.2.3", ["203.0.113.7, 10.9.9.9"], "203.0.113.7", id="through two of ours"
        ),
        pytest.param("10.1.2.3", ["10.4.4.4, 10.9.9.9"], "10.4.4.4", id="all of it ours"),
        pytest.param("10.1.2.3", [], "10.1.2.3", id="a proxy of ours by itself"),
        pytest.param("10.1.2.3", ["203.0.113.7, unknown"], None, id="not an address"),
        pytest.param("10.1.2.3", ["203.0.113.7, "], None, id="an empty hop"),
        pytest.param("::ffff:10.1.2.3", ["203.0.113.7"], "203.0.113.7", id="mapped proxy"),
        pytest.param("10.1.2.3", ["::ffff:203.0.113.7"], "203.0.113.7", id="mapped client"),
        pytest.param("2001:db8:ffff::1", ["[2001:db8:1::7]:443"], "2001:db8:1::7", id="IPv6"),
        pytest.param("192.0.2.1", ["203.0.113.7:4711"], "203.0.113.7", id="with a port"),
        pytest.param("192.0.2.2", ["203.0.113.7"], "192.0.2.2", id="beside a single address"),
        pytest.param(None, ["203.0.113.7"], None, id="a local socket"),
    ],
)
def test_the_address_of_the_client_is_found_behind_proxies(
    peer: str | None, values: list[str], client: str | None
) -> None:
    address = OURS.client_of(peer, forwarded(*values))
    assert (None if address is None else str(address)) == client


def test_without_trusted_proxies_forwarded_headers_are_ignored() -> None:
    assert str(TrustedProxies().client_of("10.1.2.3", forwarded("203.0.113.7"))) == "10.1.2.3"


def test_a_scope_has_an_address_even_if_its_proxy_sends_nonsense() -> None:
    scope = {"client": ("10.1.2.3", 1), "headers": forwarded("nonsense")}
    assert OURS.client_address(scope) == "10.1.2.3"
    assert OURS.client_address({"client": ("testclient", 1), "headers": []}) == "testclient"
    assert OURS.client_address({"client": None, "headers": []}) == ""
    assert OURS.client_address({"client": ("::ffff:9.9.9.9", 1), "headers": []}) == "9.9.9.9"


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1.2.3.4.5", "[", "12345", "a:b"])
def test_a_text_that_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize("text", ["fe80::1%eth0", '"[fe80::1]:80"', " fe80::1 "])
def test_an_address_may_have_a_zone_a_port_and_quotes(text: str) -> None:
    assert str(parse_address(text)) == "fe80::1"


@pytest.mark.parametrize("text", ["*", "10.0.0.0/33", "proxy.example", "0.0.0.0/0", "::/0"])
def test_what_is_no_network_of_proxies_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadNetwork, match=r"http\.trusted_proxies"):
        TrustedProxies.parse(f"10.0.0.0/8, {text}")
