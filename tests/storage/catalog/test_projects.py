"""Projects by number and by key."""

import pytest

from storage.catalog import Catalog

pytestmark = pytest.mark.anyio


async def test_a_project_is_found_by_its_number_and_by_its_key(catalog: Catalog) -> None:
    one = await catalog.add_project("One", 1)
    two = await catalog.add_project("Two", 2)
    for project in (one, two):
        assert await catalog.find_project(str(project.id)) == project
        assert await catalog.find_project(project.key) == project


async def test_no_key_can_be_taken_for_a_number(catalog: Catalog) -> None:
    keys = [(await catalog.add_project(f"{n}", n)).key for n in range(30)]
    assert len(set(keys)) == 30
    assert all(key[0].isalpha() and len(key) == 12 for key in keys)


@pytest.mark.parametrize(
    "name",
    ["", "0", "01", "+1", "-1", "1.0", " 1", "1 ", "\u0661", "9" * 9, "9" * 5000, "a\x00b", "1\n"],
)
async def test_nothing_else_finds_one(catalog: Catalog, name: str) -> None:
    await catalog.first_start(1)
    assert await catalog.find_project(name) is None


async def test_a_keys_case_counts(catalog: Catalog) -> None:
    project = await catalog.add_project("One", 1)
    assert await catalog.find_project(project.key.swapcase()) is None
