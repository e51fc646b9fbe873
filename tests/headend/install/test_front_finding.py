"""What `headend doctor` says of the way of viewers to HTTP."""

from ipaddress import ip_address

import pytest

from headend.config.settings import load
from headend.install.front_finding import front_finding

PRIVATE = ip_address("10.0.0.7")


def verdict(*own: str, **http: str) -> tuple[str, str]:
    options = {f"http.{name}": value for name, value in http.items()}
    settings, _ = load(file=None, environment={}, options=options)
    finding = front_finding(settings, tuple(map(ip_address, own)))
    assert finding.topic == "web server"
    return finding.verdict, finding.text


@pytest.mark.parametrize(
    "http",
    [
        {},
        {"public_url": "https://video.example.org", "trusted_proxies": "127.0.0.1"},
        {"public_url": "http://localhost:8080"},
        {"public_url": "http://10.0.0.7:8080", "listen": "10.0.0.7:8080"},
        {"public_url": "http://studio", "listen": "[::]:8080"},
        {"public_url": "http://studio.local"},
        {"listen": "[::]:8080", "trusted_proxies": "10.201.80.1"},
    ],
)
def test_a_private_or_encrypted_way_is_well(http: dict[str, str]) -> None:
    assert verdict(str(PRIVATE), **http)[0] == "well"


def test_a_web_server_that_is_not_trusted_is_found() -> None:
    found, text = verdict(public_url="https://video.example.org")
    assert found == "act"
    assert "http.trusted_proxies does not name it" in text


@pytest.mark.parametrize("url", ["http://video.example.org", "http://8.8.8.8:8080"])
def test_a_public_address_without_tls_is_found(url: str) -> None:
    found, text = verdict(public_url=url, trusted_proxies="127.0.0.1")
    assert found == "act"
    assert "in the clear" in text


@pytest.mark.parametrize(
    ("listen", "named"),
    [("[::]:8080", "8.8.4.4"), ("0.0.0.0:8080", "8.8.4.4"), ("8.8.8.8:8080", "8.8.8.8")],
)
def test_a_public_listener_without_a_web_server_is_found(listen: str, named: str) -> None:
    found, text = verdict(str(PRIVATE), "8.8.4.4", listen=listen)
    assert found == "act"
    assert f"without TLS at the public address {named}" in text
    # With a web server that is trusted, it is a firewall's or a container's matter.
    assert verdict("8.8.4.4", listen=listen, trusted_proxies="10.0.0.1")[0] == "well"
