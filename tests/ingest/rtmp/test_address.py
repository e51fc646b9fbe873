"""The stream that a peer addresses, however its encoder splits the URL."""

import pytest

from ingest.rtmp.address import address_of
from ingest.rtmp.errors import AddressRefused
from ingest.rtmp.limits import Limits

LIMITS = Limits()
KEY = "abcdefghijkl_0b5c2d3e"
URL = "rtmp://tv.example:1935/live"


@pytest.mark.parametrize(
    ("app", "url", "name", "application"),
    [
        pytest.param("live", URL, KEY, "live", id="address and key apart"),
        pytest.param("live/", URL, KEY, "live", id="a slash too many"),
        pytest.param(f"live/{KEY}", URL, "", "live", id="all in the address"),
        pytest.param(f"live/{KEY}", URL, KEY, "live", id="in both"),
        pytest.param(f"live-backup-1/{KEY}/", URL, "", "live-backup-1", id="of a backup"),
        pytest.param("live", URL, f"{KEY}?token=1&x=2", "live", id="a query behind the key"),
        pytest.param("live?a=1", f"{URL}?a=1", KEY, "live", id="query in the server"),
        pytest.param("live?a=1", f"{URL}?b=2&a=2", f"{KEY}?a=3", "live", id="queries in all"),
        pytest.param("", "rtmp://tv.example", KEY, "", id="no application (OBS allows it)"),
        pytest.param("live", "", KEY, "live", id="no tcUrl"),
        pytest.param("live", "nonsense", KEY, "live", id="a tcUrl that is none"),
        pytest.param("live", URL, f"a/b/{KEY}", "live", id="the key is the last part"),
    ],
)
def test_an_address_is_joined(app: str, url: str, name: str, application: str) -> None:
    address = address_of(app, url, name, LIMITS)
    assert (address.application, address.name) == (application, KEY)


@pytest.mark.parametrize(
    ("app", "name"),
    [
        pytest.param("live", "", id="no key"),
        pytest.param("live/", "?token=1", id="a query alone"),
        pytest.param("", "", id="nothing"),
        pytest.param(f"live/{KEY}", "another-key", id="two different keys"),
        pytest.param("live", "x" * 129, id="a key too long"),
        pytest.param("x" * 65, KEY, id="an application too long"),
        pytest.param("live", KEY + "?" + "x" * 1025, id="a query too long"),
    ],
)
def test_an_address_that_names_no_one_stream_is_refused(app: str, name: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        address_of(app, URL, name, LIMITS)
    assert caught.value.code == "NetStream.Publish.BadName"
    assert KEY not in str(caught.value)


def test_a_url_too_long_is_refused() -> None:
    with pytest.raises(AddressRefused):
        address_of("live", "rtmp://" + "x" * 2048, KEY, LIMITS)


def test_the_key_hides_in_repr() -> None:
    address = address_of("live", URL, f"{KEY}?token=hush", LIMITS)
    assert KEY not in f"{address} {address!r}"
    assert "hush" not in f"{address} {address!r}"
