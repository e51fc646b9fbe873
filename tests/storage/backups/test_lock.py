"""One process at a time changes the backups in a place."""

from pathlib import Path

import pytest

from storage.backups.lock import BackupBusy, locked
from storage.objects.disk import DiskObjects
from storage.objects.s3_bucket import S3Bucket
from tests.support.storage.s3_server import S3Server


async def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    with DiskObjects(tmp_path) as one, DiskObjects(tmp_path) as other:
        async with locked(one):
            with pytest.raises(BackupBusy, match="wait for it"):
                async with locked(other):
                    pass
        async with locked(other):
            pass


async def test_a_bucket_has_one_holder_which_leaves_nothing(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = S3Bucket(s3_server.new_bucket("backups"))
    async with locked(bucket):
        with pytest.raises(BackupBusy, match="killed less than two minutes ago"):
            async with locked(bucket):
                pass
    assert await bucket.stat("lock") is None
    async with locked(bucket):
        pass
