"""Imports on the real databases: which addresses are stored."""

import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change
from storage.catalog.videos.imports import NewImport
from storage.catalog.videos.jobs import IMPORT
from storage.errors import VideoNotFailed
from storage.leases import Lease
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000_000_000


async def leased_import(catalog: Catalog, url: str) -> Lease:
    """Ask for an import, and lease its job."""
    new = NewImport(
        url=url,
        host="media.example",
        video=new_video(size=0, source=""),
    )
    await catalog.imports.add(1, new, Change(NOW))
    job = await catalog.jobs.lease("worker", NOW, IMPORT)
    assert job is not None
    return job


async def test_a_failed_import_forgets_an_address_that_may_hold_a_signature(
    catalog: Catalog,
) -> None:
    await catalog.installation.first_start(NOW)
    job = await leased_import(catalog, "https://media.example/film.mp4?signature=secret")
    assert "secret" in (await catalog.imports.begin(job, NOW)).url
    await catalog.imports.fail(job, "The server answered 403.", NOW)
    with pytest.raises(VideoNotFailed) as refused:
        await catalog.videos.retry(job.subject, Change(NOW))
    assert refused.value.state == "failed"


@ON_BOTH
async def test_a_failed_import_of_a_plain_address_can_be_tried_again(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    url = "https://media.example/film.mp4"
    failed = await leased_import(catalog, url)
    await catalog.imports.fail(failed, "The server is down.", NOW)
    assert await catalog.videos.retry(failed.subject, Change(NOW)) is not None
    again = await catalog.jobs.lease("worker", NOW, IMPORT)
    assert again is not None
    assert (again.subject, (await catalog.imports.begin(again, NOW)).url) == (failed.subject, url)
