import socket

import pytest

from headend.config.listen_sockets import AddressError, bind, host_of, parse, public_base


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::]:1935", ("::", 1935)),
        ("localhost:0", ("localhost", 0)),
        (":8080", ("", 8080)),
    ],
)
def test_an_address_is_read(text: str, expected: tuple[str, int]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["", "80", "a:b", "::1:80", "a:99999", "a:", "a:-1", "a:٣"])
def test_a_wrong_address_is_named(text: str) -> None:
    with pytest.raises(AddressError, match=r".*"):
        parse(text)


def test_every_address_means_both_families() -> None:
    with bind("[::]:0") as sock:
        sock.listen()
        port = sock.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=5).close()


def test_an_address_that_is_taken_is_named() -> None:
    with bind("127.0.0.1:0") as first:
        first.listen()
        text = f"127.0.0.1:{first.getsockname()[1]}"
        with pytest.raises(AddressError, match=text):
            bind(text)


@pytest.mark.parametrize(
    ("public", "listen", "fallback", "expected"),
    [
        ("", "127.0.0.1:0", "", "rtmp://127.0.0.1:1935"),
        ("", "[::]:1935", "", "rtmp://localhost:1935"),
        ("", "0.0.0.0:1935", "", "rtmp://localhost:1935"),
        ("", "[::1]:1935", "", "rtmp://[::1]:1935"),
        ("", "[::]:1935", "tv.example.org", "rtmp://tv.example.org:1935"),
        ("rtmp://in.example.org/", "[::]:1935", "tv.example.org", "rtmp://in.example.org"),
    ],
)
def test_the_public_address(public: str, listen: str, fallback: str, expected: str) -> None:
    assert public_base(public, "rtmp", listen, 1935, fallback) == expected


def test_the_host_of_an_address() -> None:
    assert host_of("https://tv.example.org:8443/x") == "tv.example.org"
    assert host_of("") == ""
