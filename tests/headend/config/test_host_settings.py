"""The settings of hosts: valid values, and the addresses that other hosts connect to."""

from contextlib import ExitStack

import pytest

from headend.config.listen_sockets import AddressError, ListenSockets, port_of
from headend.config.settings import ServiceSettings, SettingsError, load

SERVER = {"database.url": "postgresql:///headend", "rtmp.listen": "", "rtmps.listen": ""}


def settings(**changed: str) -> ServiceSettings:
    options = (
        SERVER | {"ingest.status": ""} | {f"hosts.{key}": text for key, text in changed.items()}
    )
    return load(file=None, environment={}, options=options)[0]


@pytest.mark.parametrize("seconds", ["1.9", "61", "soon"])
def test_a_time_that_loses_streams_too_soon_or_too_late_is_refused(seconds: str) -> None:
    with pytest.raises(SettingsError, match=r"hosts\.dead_seconds"):
        settings(dead_seconds=seconds)


@pytest.mark.parametrize(
    ("listen", "address", "expected"),
    [
        ("", "", None),
        ("", "10.0.0.1:1937", None),
        ("127.0.0.1:0", "", "127.0.0.1:PORT"),
        ("127.0.0.1:0", "ingest1.example:1937", "ingest1.example:1937"),
        ("[::1]:0", "", "[::1]:PORT"),
        ("[::]:0", "10.0.0.1:1937", "10.0.0.1:1937"),
    ],
)
def test_other_hosts_connect_to_the_configured_address(
    listen: str, address: str, expected: str | None
) -> None:
    configured = settings(relay_listen=listen, relay_address=address)
    with ExitStack() as stack:
        sockets = ListenSockets.bind(configured, stack, origin=False, ingest=True)
        relay_address = sockets.relay_address(configured.hosts)
        port = str(port_of(sockets.relay))
    assert relay_address == (expected.replace("PORT", port) if expected else None)


@pytest.mark.parametrize(
    ("listen", "address", "words"),
    [
        ("[::]:0", "", r"set hosts\.relay_address"),
        ("0.0.0.0:0", "", r"set hosts\.relay_address"),
        ("127.0.0.1:0", "10.0.0.1", r"'10\.0\.0\.1' is not HOST:PORT"),
    ],
)
def test_an_address_that_others_cannot_connect_to_is_refused(
    listen: str, address: str, words: str
) -> None:
    some = settings(relay_listen=listen, relay_address=address)
    with ExitStack() as stack:
        sockets = ListenSockets.bind(some, stack, origin=False, ingest=True)
        with pytest.raises(AddressError, match=words):
            sockets.relay_address(some.hosts)


def test_only_an_ingest_with_a_shared_database_listens_for_relays() -> None:
    some = settings(relay_listen="127.0.0.1:0")
    alone = load(file=None, environment={}, options={
        **SERVER, "database.url": "", "ingest.status": "", "hosts.relay_listen": "127.0.0.1:0",
    })[0]  # fmt: skip
    with ExitStack() as stack:
        assert ListenSockets.bind(some, stack, origin=False, ingest=False).relay is None
        assert ListenSockets.bind(alone, stack, origin=False, ingest=True).relay is None
