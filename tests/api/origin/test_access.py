"""Which viewers may have which media: the whole table."""

import msgspec
import pytest

from api.origin.access import AccessLevel, decide_access, is_access_equal
from storage.catalog.records.common import PublicRecord

OPEN, INSIDE, OWNER, BLOCKED, NONE = (
    *(AccessLevel.OPEN, AccessLevel.RESTRICTED_OPEN),
    *(AccessLevel.OWNER, AccessLevel.BLOCKED, AccessLevel.NONE),
)


def public_record(*, published: bool, hidden: bool, countries: str = "") -> PublicRecord:
    return PublicRecord(
        hash="abcdefABCDEF", project=1, title="", description="",
        published=published, hidden=hidden, live=True, countries=frozenset(countries.split()),
    )  # fmt: skip


PUBLISHED = public_record(published=True, hidden=False)
EARLY = public_record(published=False, hidden=False)
UNPUBLISHED = public_record(published=False, hidden=True)
TAKEN_BACK = public_record(published=True, hidden=True)
RESTRICTED = public_record(published=True, hidden=False, countries="RO AD")
RESTRICTED_EARLY = public_record(published=False, hidden=False, countries="RO AD")
RESTRICTED_TAKEN_BACK = public_record(published=True, hidden=True, countries="RO AD")


@pytest.mark.parametrize(
    ("record", "media", "early", "owner"),
    [
        pytest.param(None, NONE, NONE, NONE, id="no such stream"),
        pytest.param(PUBLISHED, OPEN, OPEN, OPEN, id="published"),
        pytest.param(EARLY, NONE, OPEN, OWNER, id="not yet live"),
        pytest.param(UNPUBLISHED, NONE, NONE, OWNER, id="unpublished"),
        pytest.param(TAKEN_BACK, NONE, NONE, OWNER, id="unpublished wins"),
    ],
)
@pytest.mark.parametrize("country", [None, "RO", "DE"])
def test_the_access_table_without_restricted_countries(
    record: PublicRecord | None,
    media: AccessLevel,
    early: AccessLevel,
    owner: AccessLevel,
    country: str | None,
) -> None:
    assert decide_access(record, owner=False, country=country) is media
    assert decide_access(record, owner=False, country=country, early=True) is early
    assert decide_access(record, owner=True, country=country) is owner


@pytest.mark.parametrize(
    ("record", "country", "media", "early"),
    [
        pytest.param(RESTRICTED, "RO", INSIDE, INSIDE, id="inside"),
        pytest.param(RESTRICTED, "DE", BLOCKED, BLOCKED, id="outside"),
        pytest.param(RESTRICTED, None, BLOCKED, BLOCKED, id="nobody knows where"),
        pytest.param(RESTRICTED, "", BLOCKED, BLOCKED, id="nowhere"),
        pytest.param(RESTRICTED_EARLY, "RO", NONE, INSIDE, id="inside, too early"),
        pytest.param(RESTRICTED_EARLY, "DE", NONE, BLOCKED, id="outside, too early"),
        pytest.param(RESTRICTED_TAKEN_BACK, "RO", NONE, NONE, id="inside, unpublished"),
        pytest.param(RESTRICTED_TAKEN_BACK, "DE", NONE, NONE, id="outside, unpublished"),
    ],
)
def test_the_access_table_with_restricted_countries(
    record: PublicRecord, country: str | None, media: AccessLevel, early: AccessLevel
) -> None:
    assert decide_access(record, owner=False, country=country) is media
    assert decide_access(record, owner=False, country=country, early=True) is early


@pytest.mark.parametrize("record", [RESTRICTED, RESTRICTED_EARLY, RESTRICTED_TAKEN_BACK])
@pytest.mark.parametrize("country", [None, "DE"])
def test_an_owner_has_access_from_every_country(record: PublicRecord, country: str | None) -> None:
    assert decide_access(record, owner=True, country=country) is OWNER


def test_only_open_media_are_cacheable() -> None:
    assert [access for access in AccessLevel if access.is_cacheable] == [OPEN]
    assert {access for access in AccessLevel if not access.is_visible} == {BLOCKED, NONE}


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        pytest.param(msgspec.structs.replace(PUBLISHED, title="b", live=False), True, id="title"),
        pytest.param(TAKEN_BACK, False, id="unpublished"),
        pytest.param(EARLY, False, id="not yet live"),
        pytest.param(RESTRICTED, False, id="restricted"),
        pytest.param(None, False, id="deleted"),
    ],
)
def test_which_changes_matter_for_access(other: PublicRecord | None, equal: bool) -> None:
    assert is_access_equal(PUBLISHED, other) is equal
    assert is_access_equal(other, PUBLISHED) is equal
    assert is_access_equal(other, other)
