"""Restricted records of a project, asked of both databases."""

from media.countries import find_country
from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.details import VideoDetails
from tests.storage.catalog.videos.test_queries import NOW_US, add

# The same statements on both: what differs between them has tests of its own.


async def test_only_restricted_records_of_the_project_are_found(
    catalog: Catalog, project: ProjectRecord
) -> None:
    romania, japan = find_country("RO"), find_country("JP")
    assert romania is not None
    assert japan is not None
    free, old, new = [(await add(catalog, project, title=name)).video for name in "abc"]
    other = await catalog.projects.add("Other", Change(NOW_US))
    theirs = (await add(catalog, other)).video
    for video in (old, new, theirs):
        change = VideoDetails.edit(countries=(romania.number, japan.number))
        assert await catalog.videos.edit(video.id, change, Change(NOW_US)) is not None
    restricted = await catalog.restrictions.find(project.id, 10)
    assert [(each.kind, each.id, each.title) for each in restricted] == [
        ("video", new.id, "c"), ("video", old.id, "b"),
    ]  # fmt: skip
    assert {each.code for each in restricted[0].countries} == {"RO", "JP"}
    assert [each.id for each in await catalog.restrictions.find(project.id, 1)] == [new.id]
    assert free.id not in {each.id for each in restricted}
