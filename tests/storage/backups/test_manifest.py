"""The list of a backup's objects, read back line by line and folder by folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.backups.manifest import (
    BackupDamaged,
    FormerFolders,
    ListedObject,
    folder_of,
    parse_line,
    read_entries,
    to_line,
)
from storage.objects.base import ObjectStat

DIGEST = "ab" * 32
ADDRESSES = [
    "live/A/1/0.m4s",
    "live/A/index.m3u8",
    "sources/A/1",
    "videos/A/1-1/0.m4s",
    "videos/C/x",
]


def listed(address: str) -> ListedObject:
    return ListedObject(digest=DIGEST, size=5, modified_us=7, address=address)


@given(
    digest=st.binary(min_size=32, max_size=32),
    size=st.integers(0, 1 << 40),
    modified_us=st.integers(-(1 << 50), 1 << 60),
    address=st.sampled_from(ADDRESSES),
)
def test_a_line_is_read_as_it_was_written(
    digest: bytes, size: int, modified_us: int, address: str
) -> None:
    entry = ListedObject(digest=digest.hex(), size=size, modified_us=modified_us, address=address)
    assert parse_line(to_line(entry)) == entry


@given(st.text(max_size=200))
def test_any_other_line_is_damage(line: str) -> None:
    with pytest.raises(BackupDamaged):
        parse_line(line)


@pytest.mark.parametrize("address", ["../../etc/passwd", "/etc/passwd", "videos/.x", "a b"])
def test_no_line_leads_out_of_a_store(address: str) -> None:
    with pytest.raises(BackupDamaged):
        parse_line(f"{DIGEST}\t1\t1\t{address}\n")


def test_folders_are_found_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "objects.tsv"
    path.write_text("".join(to_line(listed(each)) for each in ADDRESSES))
    assert [entry.address for entry in read_entries(path)] == ADDRESSES
    former = FormerFolders(path)
    assert list(former.of("live/A")) == ADDRESSES[:2]
    assert former.of("live/B") == {}
    assert list(former.of("videos/A")) == ["videos/A/1-1/0.m4s"], "sources are passed over"
    assert former.of("videos/B") == {}
    assert list(former.of("videos/C")) == ["videos/C/x"]
    assert former.of("videos/D") == {}


def test_without_a_list_nothing_is_known() -> None:
    assert FormerFolders(None).of("videos/A") == {}


def test_an_object_with_another_size_or_time_has_changed() -> None:
    entry = listed("sources/A/1")
    assert entry.is_of(ObjectStat(size=5, modified_us=7))
    assert not entry.is_of(ObjectStat(size=6, modified_us=7))
    assert not entry.is_of(ObjectStat(size=5, modified_us=8))
    assert folder_of(entry.address) == "sources/A"
