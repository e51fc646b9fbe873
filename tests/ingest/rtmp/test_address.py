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
        pytest.param("live", URL, f" {KEY}\r\n", "live", id="white space around the key"),
        pytest.param("live", URL, f"\u00a0{KEY}\t?x=1", "live", id="and before a query"),
        pytest.param("live ", f"{URL} ", KEY, "live", id="white space behind the server"),
        pytest.param("live", URL, f"%20{KEY}%0A", "live", id="white space, encoded"),
        pytest.param(f"live/ {KEY} ", URL, KEY, "live", id="white space in one of two"),
        pytest.param("live", URL, KEY.replace("_", "%5F"), "live", id="an encoded underscore"),
        pytest.param("live", URL, KEY.replace("_", "%5f"), "live", id="in lower case"),
        pytest.param(
            f"live/{KEY.replace('_', '%5F')}", URL, KEY, "live", id="encoded in one of two"
        ),
        pytest.param("live%2Dbackup%2D1", URL, KEY, "live-backup-1", id="an encoded application"),
        pytest.param("live/_definst_", f"{URL}/_definst_", KEY, "live", id="the default instance"),
        pytest.param("live", URL, f"_definst_/{KEY}", "live", id="the instance before the key"),
        pytest.param(f"live/_definst_/{KEY}", URL, "", "live", id="the instance, all in one"),
        pytest.param(f"live/_definst_/{KEY}", URL, f" mp4:{KEY} ", "live", id="all of it at once"),
        pytest.param("live", URL, f"mp4:{KEY}", "live", id="a format before the key"),
        pytest.param("live", URL, f"flv:{KEY}", "live", id="another format"),
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
        pytest.param("live", " \t", id="white space alone"),
        pytest.param("live", "mp4:", id="a format alone"),
        pytest.param("live", "%20", id="encoded white space alone"),
        pytest.param("live/_definst_", "", id="the default instance alone"),
        pytest.param("live/_definst_", "_definst_", id="the default instance as the key"),
        pytest.param(f"live/mp4:{KEY}", "mp4:another-key", id="two different keys with a format"),
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
