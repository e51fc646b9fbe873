"""Projects by number and by key."""

import asyncio
from collections.abc import Callable

import pytest

from media.stream_events import EngineLostEvent
from storage.catalog import Catalog
from storage.catalog.records.common import Change
from storage.errors import ProjectNotDeletable
from tests.support.shared_engines import ON_BOTH
from tests.support.storage.removed_projects import remove_rows


async def test_a_project_is_found_by_its_number_and_by_its_key(catalog: Catalog) -> None:
    one = await catalog.projects.add("One", Change(1))
    two = await catalog.projects.add("Two", Change(2))
    for project in (one, two):
        assert await catalog.projects.find(str(project.id)) == project
        assert await catalog.projects.find(project.key) == project


async def test_no_key_can_be_taken_for_a_number(catalog: Catalog) -> None:
    keys = [(await catalog.projects.add(f"{n}", Change(n))).key for n in range(30)]
    assert len(set(keys)) == 30
    assert all(key[0].isalpha() and len(key) == 12 for key in keys)


@pytest.mark.parametrize(
    "name",
    ["", "0", "01", "+1", "-1", "1.0", " 1", "1 ", "\u0661", "9" * 9, "9" * 5000, "a\x00b", "1\n"],
)
async def test_nothing_else_finds_one(catalog: Catalog, name: str) -> None:
    await catalog.installation.first_start(1)
    assert await catalog.projects.find(name) is None


@ON_BOTH
async def test_a_keys_case_counts(catalog: Catalog) -> None:
    project = await catalog.projects.add("One", Change(1))
    assert await catalog.projects.find(project.key.swapcase()) is None


async def test_a_project_is_renamed_and_keeps_its_key(catalog: Catalog) -> None:
    project = await catalog.projects.add("One", Change(1))
    renamed = await catalog.projects.edit(project.id, Change(9, by=4), name="Doi")
    assert renamed is not None
    assert (renamed.name, renamed.created_us, renamed.updated_us) == ("Doi", 1, 9)
    assert await catalog.projects.find(project.key) == renamed
    assert await catalog.projects.edit(999, Change(9, by=4), name="X") is None
    newest = (await catalog.events.find_page(project.id)).items[0]
    assert (newest.kind, newest.facts, newest.token) == (
        "project edited",
        {"project": project.id, "keys": ["name"]},
        4,
    )


async def test_projects_are_listed_as_far_as_a_caller_reaches(catalog: Catalog) -> None:
    created = [await catalog.projects.add(f"{number}", Change(number)) for number in range(12)]
    first = await catalog.projects.find_page()
    assert first.items == tuple(created[:1:-1])
    assert (first.total, first.last) == (12, 2)
    mine = await catalog.projects.find_page(reach=created[3].id)
    assert (mine.items, mine.total) == ((created[3],), 1)
    assert (await catalog.projects.find_page(reach=999)).items == ()


@ON_BOTH
async def test_a_deleted_project_takes_all_it_held_along(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).project
    project = await catalog.projects.add("Doomed", Change(1))
    streams = [await catalog.streams.add(project.id, f"{number}", Change(1)) for number in range(2)]
    tag = await catalog.labels.add("tag", project.id, "Tag", Change(1), active=True)
    _, token = await catalog.tokens.add("theirs", project.id, Change(1), write=True)
    assert await catalog.tokens.authenticate(token) is not None
    assert await catalog.projects.remove(project.id, Change(2, by=8))
    rows = await catalog.removed_projects.find_rows(project.id)
    assert rows is not None
    assert rows.hashes == tuple(stream.hash for stream in streams)
    assert await catalog.projects.find(project.key) is None
    assert await catalog.streams.find(streams[0].id) is None
    assert await catalog.labels.find("tag", tag.id) is None
    assert await catalog.tokens.authenticate(token) is None
    assert not await catalog.projects.remove(project.id, Change(3, by=8))
    await remove_rows(catalog)
    assert not await catalog.projects.remove(project.id, Change(3, by=8))
    newest = (await catalog.events.find_page(first.id)).items[0]
    assert (newest.kind, newest.token) == ("project deleted", 8)
    assert newest.facts == {"project": project.id, "key": project.key, "name": "Doomed"}


async def test_the_first_project_and_one_on_air_are_kept(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).project
    with pytest.raises(ProjectNotDeletable):
        await catalog.projects.remove(first.id, Change(2))
    project = await catalog.projects.add("Live", Change(1))
    stream = await catalog.streams.add(project.id, "A stream", Change(1))

    async def air(*, on: bool, sending: tuple[int, ...] = ()) -> None:
        await catalog.live_state.set(
            stream.id, live=on, processing=on, on_air=0 if on else None, sending=sending,
            no_audio=False, now_us=2,
        )  # fmt: skip

    for on, sending in ((True, (0,)), (True, ()), (False, (1,))):
        await air(on=on, sending=sending)
        with pytest.raises(ProjectNotDeletable):
            await catalog.projects.remove(project.id, Change(3))
        assert await catalog.streams.find(stream.id) is not None
    await air(on=False)
    assert await catalog.projects.remove(project.id, Change(4))
    rows = await catalog.removed_projects.find_rows(project.id)
    assert rows is not None
    assert rows.hashes == (stream.hash,)


@ON_BOTH
async def test_a_project_is_deleted_while_its_streams_change_and_no_caller_is_blocked(
    catalog: Catalog,
) -> None:
    await catalog.installation.first_start(1)
    for _ in range(8):
        project = await catalog.projects.add("Doomed", Change(1))
        streams = [await catalog.streams.add(project.id, f"{n}", Change(1)) for n in range(3)]
        gone = False

        async def change(stream: int, over: Callable[[], bool]) -> int:
            # Each with an event, which waits for the project.
            turn = 0
            while not over():
                turn += 1
                await catalog.live_state.set(
                    stream, live=False, processing=False, on_air=None, sending=(),
                    no_audio=bool(turn % 2), now_us=turn, happened=(EngineLostEvent(cause="x"),),
                )  # fmt: skip
            return turn

        async with asyncio.TaskGroup() as tasks:
            changes = [
                tasks.create_task(change(each.id, lambda: gone))  # noqa: B023  # of this round
                for each in streams
            ]
            await asyncio.sleep(0.02)  # so that they are under way
            assert await catalog.projects.remove(project.id, Change(9))
            assert await remove_rows(catalog) == [3]
            gone = True
        assert all(each.result() for each in changes)
        assert await catalog.projects.find(project.key) is None
