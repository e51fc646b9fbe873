"""Where backups are, and where they are not."""

from pathlib import Path

import pytest

from headend.install.backup_place import (
    BackupRefused,
    backup_place,
    open_repository,
    temporary_folder,
)
from storage.objects.s3_bucket import S3Location
from tests.support.headend.installed import settings_of


def test_a_place_is_a_folder_or_a_bucket(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path / "data",
        backup__to="s3://backups/of/it",
        backup__endpoint="https://s3.example",
        backup__region="here",
    )
    assert backup_place(settings, str(tmp_path / "there")) == tmp_path / "there"
    bucket = S3Location(
        bucket="backups", prefix="of/it", endpoint="https://s3.example", region="here"
    )
    assert backup_place(settings, None) == bucket
    other = backup_place(settings, "s3://another", endpoint="", region="")
    assert other == S3Location(bucket="another")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(None, "or set backup.to", id="none"),
        pytest.param("{data}", "is in the data folder", id="the data folder"),
        pytest.param("{data}/objects", "is in the data folder", id="within it"),
        pytest.param("s3://media/films/backups", "is within s3://media/films", id="in the media"),
        pytest.param("s3://media", "is within s3://media/films, or around it", id="around them"),
        pytest.param("https://x", "Expected s3://BUCKET", id="no bucket"),
    ],
)
def test_other_places_are_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    data = tmp_path / "data"
    settings = settings_of(data, storage__url="s3://media/films")
    with pytest.raises(BackupRefused, match=reason):
        backup_place(settings, text and text.format(data=data))
    assert backup_place(settings, "s3://media/filmsbackups") != data


def test_what_a_kill_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    (tmp_path / ".backup-left").mkdir()
    (tmp_path / ".backup-left" / "catalog.sqlite").write_bytes(b"x")
    with temporary_folder(tmp_path) as one:
        (one / "x").write_bytes(b"x")
        with temporary_folder(tmp_path) as other, open_repository(tmp_path / "place", other):
            assert (one / "x").exists()
            assert not (tmp_path / ".backup-left").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
