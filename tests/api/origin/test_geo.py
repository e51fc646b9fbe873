"""The country of a viewer, from a database file or a header of a trusted proxy."""

import asyncio
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from api.http.client_address import TrustedProxies
from api.origin.geo import CountryResolver, GeoError
from tests.support.geo_database import FRENCH, GERMAN, NOWHERE, ROMANIAN, SIXTH, countries

PROXY = "10.0.0.1"
Headers = Sequence[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(countries(tmp_path_factory.mktemp("geo") / "countries.mmdb"))


def behind(*values: str, country: Sequence[str] = ()) -> Headers:
    country_headers = [(b"cf-ipcountry", value.encode()) for value in country]
    return [*((b"x-forwarded-for", value.encode()) for value in values), *country_headers]


@pytest.mark.parametrize(
    ("address", "country"),
    [
        (ROMANIAN, "RO"),
        (GERMAN, "DE"),
        (FRENCH, "FR"),
        (SIXTH, "RO"),
        (f"::ffff:{GERMAN}", "DE"),
        (NOWHERE, None),
        ("2001:db8:2::1", None),
        ("127.0.0.1", None),
        ("nonsense", None),
    ],
)
def test_an_address_is_looked_up(database: str, address: str, country: str | None) -> None:
    geo = CountryResolver(database=database)
    assert geo.country(address, []) == country
    assert geo.country(address, []) == country  # from memory


def test_without_a_database_no_country_is_known() -> None:
    assert CountryResolver().country(ROMANIAN, []) is None


def test_a_forwarded_address_counts_only_from_a_trusted_proxy(database: str) -> None:
    geo = CountryResolver(TrustedProxies([PROXY]), database=database)
    assert geo.country(PROXY, behind(ROMANIAN)) == "RO"
    assert geo.country(PROXY, behind(f"{ROMANIAN}, {GERMAN}")) == "DE"
    assert geo.country(GERMAN, behind(ROMANIAN)) == "DE"
    assert geo.country(PROXY, behind("nonsense")) is None


@pytest.mark.parametrize(
    ("values", "country"),
    [
        (["de"], "DE"),
        (["XX"], None),
        (["T1"], None),
        (["Germany"], None),
        ([""], None),
        (["DE", "RO"], None),
        (["DE", "DE"], "DE"),
        ([], "RO"),
    ],
)
def test_a_header_is_believed_from_a_trusted_proxy(
    database: str, values: list[str], country: str | None
) -> None:
    geo = CountryResolver(TrustedProxies([PROXY]), database=database, trusted_header="CF-IPCountry")
    assert geo.country(PROXY, behind(ROMANIAN, country=values)) == country
    assert geo.country(GERMAN, behind(country=values)) == "DE"


def test_a_country_header_that_is_not_configured_is_ignored(database: str) -> None:
    geo = CountryResolver(TrustedProxies([PROXY]), database=database)
    assert geo.country(PROXY, behind(ROMANIAN, country=["DE"])) == "RO"


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.2.3.4", "172.31.0.1", "192.168.1.1", "::1", "fd00::1", "fe80::1"]
)
def test_private_addresses_have_the_configured_country(address: str) -> None:
    assert CountryResolver(private_country="ro").country(address, []) == "RO"
    assert CountryResolver().country(address, []) is None


def test_a_public_address_is_looked_up(database: str) -> None:
    geo = CountryResolver(database=database, private_country="RO")
    assert geo.country(GERMAN, []) == "DE"
    assert geo.country(NOWHERE, []) is None
    assert geo.country("172.32.0.1", []) is None


def test_a_private_address_that_forwards_without_being_trusted_has_no_country(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise every viewer behind it would count as a neighbour."""
    geo = CountryResolver(private_country="RO")
    for _ in range(3):
        assert geo.country("127.0.0.1", behind(GERMAN)) is None
        assert geo.country("127.0.0.1", [(b"via", b"1.1 proxy")]) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "http.trusted_proxies" in caplog.text


def test_a_trusted_proxy_that_forwards_no_address_has_no_country() -> None:
    geo = CountryResolver(TrustedProxies(["127.0.0.1"]), private_country="RO")
    assert geo.country("127.0.0.1", []) is None
    assert geo.country("127.0.0.1", behind("127.0.0.1")) is None
    assert geo.country("127.0.0.1", behind("192.168.1.5")) == "RO"


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_a_start_without_a_readable_database_is_refused_with_its_path(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "countries.mmdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GeoError, match=rf"geo\.database: {path}: \S"):
        CountryResolver(database=str(path))


@pytest.mark.parametrize("country", ["Romania", "R", "4O", "XX"])
def test_an_invalid_private_country_is_refused(country: str) -> None:
    with pytest.raises(GeoError, match=r"geo\.private_country"):
        CountryResolver(private_country=country)


def test_a_new_file_is_loaded_and_a_broken_one_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = countries(tmp_path / "countries.mmdb")
    geo = CountryResolver(database=str(path))
    before = path.read_bytes()

    def country_after_reload() -> str | None:
        asyncio.run(geo.reload_if_changed())
        return geo.country(GERMAN, [])

    assert geo.country(GERMAN, []) == "DE"
    countries(path, german="AT")
    assert geo.country(GERMAN, []) == "DE"
    assert country_after_reload() == "AT"
    # A copy in progress: the loaded database stays in use.
    path.write_bytes(before[:100])
    assert [country_after_reload(), country_after_reload(), country_after_reload()] == [
        "AT",
        "AT",
        "AT",
    ]
    path.unlink()
    assert [country_after_reload(), country_after_reload()] == ["AT", "AT"]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.message for record in errors] == ["geo database not read"] * 2
    path.write_bytes(before)
    assert country_after_reload() == "DE"


def test_a_database_with_broken_data_gives_no_country(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = countries(tmp_path / "countries.mmdb")
    content = path.read_bytes()
    marker = content.rindex(b"\xab\xcd\xefMaxMind.com")
    path.write_bytes(b"\xff" * marker + content[marker:])
    geo = CountryResolver(database=str(path))
    assert [geo.country(address, []) for address in (GERMAN, ROMANIAN, SIXTH, GERMAN)] == [None] * 4
    assert [record.message for record in caplog.records] == ["geo database broken"]


async def test_errors_of_the_database_reader_are_translated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One key of its metadata is changed, for which the reader raises an undocumented error."""
    path = countries(tmp_path / "countries.mmdb")
    damaged = path.read_bytes().replace(b"ip_version", b"ip_versioX")
    geo = CountryResolver(database=str(path))
    path.write_bytes(damaged + b" ")
    await geo.reload_if_changed()
    assert geo.country(GERMAN, []) == "DE"
    assert [record.message for record in caplog.records] == ["geo database not read"]
    with pytest.raises(GeoError, match=r"geo\.database"):
        CountryResolver(database=str(path))


def test_a_damaged_database_gives_a_country_none_or_a_geo_error(
    tmp_path: Path,
) -> None:
    path = countries(tmp_path / "countries.mmdb")
    content = path.read_bytes()
    chance = random.Random(1)  # the same bytes each time
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[-chance.randint(1, 300)] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            geo = CountryResolver(database=str(path))
        except GeoError:
            continue
        for address in (GERMAN, ROMANIAN, FRENCH, SIXTH, NOWHERE):
            assert geo.country(address, []) is None or isinstance(geo.country(address, []), str)


def test_a_public_service_needs_a_trusted_proxy_to_place_private_addresses() -> None:
    geo = CountryResolver(private_country="RO", public=True)
    # A proxy that adds no header looks like a viewer on this machine.
    assert [geo.country(peer, []) for peer in ("127.0.0.1", "10.0.0.5", "::1")] == [None] * 3
    proxy = TrustedProxies(["127.0.0.1"])
    geo = CountryResolver(proxy, private_country="RO", public=True)
    assert geo.country("10.0.0.5", []) == "RO"
    assert geo.country("127.0.0.1", []) is None  # the proxy named no viewer
    assert geo.country("127.0.0.1", [(b"x-forwarded-for", b"10.0.0.6")]) == "RO"
