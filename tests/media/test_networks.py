"""The network to which a client's address belongs."""

import pytest

from media.networks import client_network, site_network


@pytest.mark.parametrize(
    ("address", "client", "site"),
    [
        ("192.0.2.1", "192.0.2.1", None),
        ("::ffff:192.0.2.1", "192.0.2.1", None),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("2001:db8:1:ffff::1", "2001:db8:1:ffff::/64", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/64", "fe80::/48"),
        ("::1", "::/64", "::/48"),
        ("", "", None),
        ("no:address", "no:address", None),
    ],
)
def test_an_address_counts_for_its_networks(address: str, client: str, site: str | None) -> None:
    assert client_network(address) == client
    assert site_network(address) == site
