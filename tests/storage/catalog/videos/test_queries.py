"""Videos in the catalog, on both databases: found, listed, counted, taken away."""

from storage.catalog import Catalog
from storage.catalog.records.common import Change, ProjectRecord
from storage.catalog.records.videos import NewVideo, VideoQuery, WholeVideo
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.new_videos import new_video

NOW_US = 1_700_000_000_123_456
DAY_US = 86_400_000_000


def arrived(**changed: object) -> NewVideo:
    facts: dict[str, object] = {
        "file_title": "My film",
        "name": "my-film",
        "size": 1000,
        "length_us": 2_000_000,
        "width": 640,
        "height": 360,
        "rungs": ((1, 640, 360),),
    }
    return new_video(**(facts | changed))  # pyright: ignore[reportArgumentType]  # by their names


async def add(catalog: Catalog, project: ProjectRecord, **changed: object) -> WholeVideo:
    now_us = changed.pop("now_us", NOW_US)
    assert isinstance(now_us, int)
    return await catalog.videos.add(project.id, arrived(**changed), Change(now_us, by=7))  # pyright: ignore[reportArgumentType]  # by their names


async def listed(catalog: Catalog, project: ProjectRecord, page: int = 1, **asked: object):
    query = VideoQuery(**asked)  # pyright: ignore[reportArgumentType]  # by their names
    return await catalog.videos.find_page(project, query, page)


async def test_lists_are_newest_first_in_pages_of_thirty(
    catalog: Catalog, project: ProjectRecord
) -> None:
    ids = [(await add(catalog, project)).video.id for _ in range(32)]
    first, second, beyond = [await listed(catalog, project, page) for page in (1, 2, 3)]
    assert [each.id for each in first.items] == ids[:1:-1]
    assert [each.id for each in second.items] == ids[1::-1]
    assert beyond.items == ()
    assert {page.total for page in (first, second, beyond)} == {32}
    assert first.last == 2


@ON_BOTH
async def test_lists_find_titles_without_case_and_take_wildcards_literally(
    catalog: Catalog, project: ProjectRecord
) -> None:
    await add(catalog, project, title="ȘTIRI de la 100%")
    await add(catalog, project, file_title="Știri_azi")
    await add(catalog, project, title="x", file_title="Știri of a file whose title is another")
    assert (await listed(catalog, project, search="știri")).total == 2
    assert [each.title for each in (await listed(catalog, project, search="0%")).items] == [
        "ȘTIRI de la 100%"
    ]
    assert (await listed(catalog, project, search="i_a")).total == 1
    assert (await listed(catalog, project, search="_ir")).total == 0


async def test_lists_take_spans_whose_end_is_outside(
    catalog: Catalog, project: ProjectRecord
) -> None:
    for day in range(4):
        await add(catalog, project, now_us=NOW_US + day * DAY_US)
    in_range = await listed(catalog, project, from_us=NOW_US + DAY_US, until_us=NOW_US + 3 * DAY_US)
    assert [each.created_us for each in in_range.items] == [NOW_US + 2 * DAY_US, NOW_US + DAY_US]
    assert in_range.total == 2


async def test_totals_follow_every_video(catalog: Catalog, project: ProjectRecord) -> None:
    videos = [(await add(catalog, project)).video for _ in range(3)]
    assert (await listed(catalog, project, phase="inprogress")).total == 3
    assert (await listed(catalog, project, phase="completed")).total == 0
    hash_ = await catalog.videos.remove(videos[1].id, Change(NOW_US, by=7))
    assert hash_ == videos[1].hash
    assert await catalog.videos.remove(videos[1].id, Change(NOW_US, by=7)) is None
    remaining = await listed(catalog, project, phase="inprogress")
    assert remaining.total == len(remaining.items) == 2
    assert (await listed(catalog, project)).total == 2
    assert await catalog.videos.find(videos[1].id) is None
    assert await catalog.videos.find_known([video.hash for video in videos]) == {
        videos[0].hash, videos[2].hash,
    }  # fmt: skip


@ON_BOTH
async def test_numbers_that_no_row_can_have_are_those_of_nothing(catalog: Catalog) -> None:
    for number in (-1, 0, 1 << 31, 1 << 63, 10**30):
        assert await catalog.videos.find(number) is None
        assert await catalog.videos.find_status(number) is None
