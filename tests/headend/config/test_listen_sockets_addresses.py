"""Addresses that follow from settings and bound ports, in each role."""

from contextlib import ExitStack

import pytest

from headend.config.listen_sockets import AddressError, ListenSockets, bind, port_of
from headend.config.settings import ServiceSettings, load

FREE = {
    "http.listen": "127.0.0.1:0",
    "rtmp.listen": "127.0.0.1:0",
    "rtmps.listen": "127.0.0.1:0",
}


def settings(**changed: str) -> ServiceSettings:
    options = FREE | {name.replace("__", "."): value for name, value in changed.items()}
    return load(file=None, environment={}, options=options)[0]


def test_bound_ports_are_in_the_addresses() -> None:
    with ExitStack() as stack:
        configured = settings()
        sockets = ListenSockets.bind(configured, stack, origin=True, ingest=True)
        addresses = sockets.addresses(configured)
        assert addresses.http == f"http://127.0.0.1:{port_of(sockets.http)}"
        assert addresses.rtmp == f"rtmp://127.0.0.1:{port_of(sockets.rtmp)}"
        assert addresses.rtmps == f"rtmps://127.0.0.1:{port_of(sockets.rtmps)}"


def test_ports_of_other_processes_come_from_the_settings() -> None:
    with ExitStack() as stack:
        configured = settings(rtmp__listen="[::]:1935", rtmps__listen="[::1]:1936")
        sockets = ListenSockets.bind(configured, stack, origin=True, ingest=False)
        assert (sockets.rtmp, sockets.rtmps) == (None, None)
        addresses = sockets.addresses(configured)
        assert (addresses.rtmp, addresses.rtmps) == ("rtmp://localhost:1935", "rtmps://[::1]:1936")
    with ExitStack() as stack:
        configured = settings(http__listen="127.0.0.1:8080")
        sockets = ListenSockets.bind(configured, stack, origin=False, ingest=True)
        assert sockets.http is None
        assert sockets.addresses(configured).http == "http://127.0.0.1:8080"


def test_a_free_port_of_another_process_needs_a_public_address() -> None:
    with ExitStack() as stack:
        some = settings()
        sockets = ListenSockets.bind(some, stack, origin=True, ingest=False)
        with pytest.raises(AddressError, match=r"rtmp\.listen is 127\.0\.0\.1:0, a free port"):
            sockets.addresses(some)
        public = settings(rtmp__public_url="rtmp://in.test", rtmps__public_url="rtmps://in.test")
        assert sockets.addresses(public).rtmp == "rtmp://in.test"


def test_a_disabled_listener_is_no_error() -> None:
    with ExitStack() as stack:
        some = settings(rtmp__listen="", rtmps__listen="")
        sockets = ListenSockets.bind(some, stack, origin=False, ingest=True)
        assert (sockets.http, sockets.rtmp, sockets.rtmps) == (None, None, None)


@pytest.mark.parametrize(("public", "rtmp"), [("", ""), ("rtmp://in.test", "rtmp://in.test")])
def test_an_address_that_is_not_served_is_empty(public: str, rtmp: str) -> None:
    """With a public one, something in front of the service may serve it."""
    configured = settings(rtmp__listen="", rtmp__public_url=public, rtmps__listen="[::]:1936")
    addresses = ListenSockets().addresses(configured)
    assert (addresses.rtmp, addresses.rtmp_backup) == (rtmp, rtmp)
    assert addresses.rtmps == "rtmps://localhost:1936"


def test_held_sockets_are_taken_by_address_and_others_are_bound() -> None:
    with ExitStack() as stack:
        http, rtmp = (stack.enter_context(bind(text)) for text in ("127.0.0.1:0", "[::]:0"))
        some = settings(
            http__listen=f"localhost:{port_of(http)}", rtmp__listen=f"0.0.0.0:{port_of(rtmp)}"
        )
        held = (rtmp, http)
        sockets = ListenSockets.bind(some, stack, origin=True, ingest=True, held=held)
        assert (sockets.http, sockets.rtmp) == (http, rtmp)
        assert sockets.rtmps not in {*held, None}


def test_a_socket_held_for_other_addresses_is_refused() -> None:
    with ExitStack() as stack:
        held = stack.enter_context(bind("[::]:0"))
        some = settings(http__listen=f"127.0.0.1:{port_of(held)}")
        with pytest.raises(AddressError, match="systemd holds port"):
            ListenSockets.bind(some, stack, origin=True, ingest=False, held=[held])
        with pytest.raises(AddressError, match="which no setting names"):
            ListenSockets.bind(settings(), stack, origin=True, ingest=False, held=[held])
