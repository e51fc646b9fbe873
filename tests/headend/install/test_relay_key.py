"""TLS between hosts: those with the same secret accept each other, and no other peer."""

import ssl

import pytest

from headend.install.relay_key import MIN_SECRET_BYTES, relay_tls

SECRET = b"0123456789abcdef"
OTHER = b"fedcba9876543210"


class TlsHandshake:
    """Both ends of a connection in memory."""

    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext) -> None:
        here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(here, there)
        self.server = server.wrap_bio(there, here, server_side=True)

    def run(self) -> bytes:
        """Exchange messages until the server has read what the client wrote."""
        for _ in range(4):
            for end in (self.client, self.server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        self.client.write(b"media")
        return self.server.read(5)


def plain_client() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_hosts_with_one_secret_accept_each_other_by_tls_1_3() -> None:
    here, there = relay_tls(SECRET), relay_tls(SECRET)
    connection = TlsHandshake(here.client, there.server)
    assert connection.run() == b"media"
    assert connection.client.version() == connection.server.version() == "TLSv1.3"


def test_every_host_makes_the_same_certificate() -> None:
    seen: set[bytes | None] = set()
    for here in (relay_tls(SECRET), relay_tls(SECRET)):
        connection = TlsHandshake(here.client, here.server)
        connection.run()
        seen |= {
            each.getpeercert(binary_form=True) for each in (connection.client, connection.server)
        }
    assert len(seen) == 1
    assert None not in seen


def test_an_owner_refuses_hosts_with_another_secret_or_none() -> None:
    for client in (relay_tls(OTHER).client, plain_client()):
        with pytest.raises(ssl.SSLError):
            TlsHandshake(client, relay_tls(SECRET).server).run()


def test_a_relaying_host_refuses_an_owner_with_another_secret() -> None:
    with pytest.raises(ssl.SSLError):
        TlsHandshake(relay_tls(SECRET).client, relay_tls(OTHER).server).run()


def test_older_versions_are_refused() -> None:
    old = plain_client()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        TlsHandshake(old, relay_tls(SECRET).server).run()


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        relay_tls(bytes(MIN_SECRET_BYTES - 1))
