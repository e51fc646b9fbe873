"""Addresses on the web: which are accepted, and where they may lead."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbound.policy import (
    MAX_URL,
    BadWebAddress,
    is_fetchable,
    is_ip_literal,
    parse_networks,
    parse_web_address,
)

PORTS = frozenset({80, 443, 8443})


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("http://a.example/b.mp4", "a.example", 80, "/b.mp4"),
        ("HTTPS://A.Example./b.mp4?sig=1&x=%2F#part", "a.example", 443, "/b.mp4?sig=1&x=%2F"),
        ("https://a.example", "a.example", 443, "/"),
        ("https://a.example:8443/?q", "a.example", 8443, "/?q"),
        ("http://[2606:4700::1111]/a", "2606:4700::1111", 80, "/a"),
        ("http://münchen.example/ä.mp4", "xn--mnchen-3ya.example", 80, "/%C3%A4.mp4"),
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, target: str) -> None:
    address = parse_web_address(url, PORTS)
    assert (address.host, address.port, address.target) == (host, port, target)
    assert parse_web_address(address.url, PORTS) == address


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://a.example/b", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("//a.example/b", "must begin with http"),
        ("", "must begin with http"),
        ("http:///b", "names no host"),
        ("http://user@a.example/b", "user name"),
        ("http://user:password@a.example/b", "user name"),
        ("http://@a.example/b", "user name"),
        ("http://a.example:22/b", "Port 22"),
        ("http://a.example:0/b", "Port 0"),
        ("http://a.example:99999/b", "not a web address"),
        ("http://a.example:x/b", "not a web address"),
        ("http://[::1/b", "not a web address"),
        ("http://a.example/\ud800", "not a web address"),
        ("http://\ud800.example/", "names no host"),
        ("http://[fe80::1%25eth0]/b", "names no host"),
        ("http://a b.example/", "spaces"),
        ("http://a.example/b\r\nX-Evil: 1", "spaces"),
        ("http://a.example\\@b.example/", "spaces"),
        ("http://a.exa\tmple/", "spaces"),
        ("http://a%2eexample/", "names no host"),
        ("http://-a.example/", "names no host"),
        ("http://a" + "." * 300 + "example/", "names no host"),
        ("http://a.example/" + "b" * MAX_URL, "characters"),
    ],
)
def test_what_is_no_such_address_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadWebAddress, match=reason):
        parse_web_address(url, PORTS)


def test_a_redirect_is_read_as_the_first_address_is() -> None:
    here = parse_web_address("https://a.example/films/b.mp4?key=1", PORTS)
    assert here.redirected("c.mp4", PORTS).url == "https://a.example/films/c.mp4"
    assert here.redirected("//b.example/c", PORTS).url == "https://b.example/c"
    for bad in (
        "file:///etc/passwd",
        "http://a:b@c.example/",
        "gopher://a/",
        "http://[",
        "//x:22/",
    ):
        with pytest.raises(BadWebAddress):
            here.redirected(bad, PORTS)


def test_an_address_hides_its_path_and_query() -> None:
    address = parse_web_address("https://a.example/secret/b.mp4?signature=hush", PORTS)
    assert repr(address) == "WebAddress(https://a.example)"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://a.example/holiday.mp4?sig=x.y", "holiday.mp4"),
        ("http://a.example/download?file=x.mp4", ""),
        ("http://a.example/s3cr3t", ""),
        ("http://a.example/", ""),
        ("http://a.example/.mp4", ""),
    ],
)
def test_only_what_looks_like_a_files_name_is_one(url: str, name: str) -> None:
    assert parse_web_address(url, PORTS).file_name == name


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "5f00::1",
        "no-address",
    ],
)
def test_what_is_not_public_is_closed(address: str) -> None:
    assert not is_fetchable(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"],
)
def test_what_is_public_is_open(address: str) -> None:
    assert is_fetchable(address)


@given(st.ip_addresses())
def test_nothing_that_the_standard_library_calls_private_is_open(address: object) -> None:
    parsed = ip_address(str(address))
    if parsed.is_private or parsed.is_loopback or parsed.is_multicast or parsed.is_link_local:
        assert not is_fetchable(str(address))


def test_networks_that_are_named_are_open() -> None:
    allowed = parse_networks("10.1.0.0/16, fd00::/8,127.0.0.1")
    assert is_fetchable("10.1.2.3", allowed)
    assert is_fetchable("fd12::1", allowed)
    assert is_fetchable("127.0.0.1", allowed)
    assert not is_fetchable("10.2.0.1", allowed)
    assert not is_fetchable("127.0.0.2", allowed)
    assert parse_networks("") == ()
    with pytest.raises(ValueError, match="everywhere"):
        parse_networks("everywhere")


def test_an_address_literal_is_distinguished_from_a_name() -> None:
    assert is_ip_literal("127.0.0.1")
    assert is_ip_literal("::1")
    assert not is_ip_literal("127.1")  # a resolver turns it into an address, which is checked
    assert not is_ip_literal("localhost")


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=80))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://a.example/{text}"):
        try:
            address = parse_web_address(url, PORTS)
        except BadWebAddress:
            continue
        assert address.target.isascii() and address.host.isascii()
        assert not set(address.target) & set(" \r\n\t")
        assert parse_web_address(address.url, PORTS) == address
