"""Walks over many files take them some at a time, whether they list or delete."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from storage.objects.disk import DiskObjects
from storage.objects.disk_threads import DiskThreads
from storage.objects.file_trees import addresses_below, remove_tree, run_steps, subfolders
from storage.objects.read_only import ReadOnlyObjects

T = TypeVar("T")
MANY = 2_500


class CountingThreads(DiskThreads):
    """Real threads; `runs` is how often one was given work, for which a limit of time counts."""

    def __init__(self) -> None:
        super().__init__("counting", 1)
        self.runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.runs += 1
        return await super().run(work)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A store in which one folder has many files, and another many folders."""
    for number in range(MANY):
        (tmp_path / "live" / "a" / f"run-{number}").mkdir(parents=True)
    (tmp_path / "videos" / "a").mkdir(parents=True)
    for number in range(MANY):
        (tmp_path / "videos" / "a" / f"{number}.m4s").touch()
    return tmp_path


async def test_a_few_files_or_none_take_one_thread_once(tmp_path: Path) -> None:
    threads = CountingThreads()
    with DiskObjects(tmp_path) as whole:
        objects = whole.using(threads)
        await objects.put("videos/a/1.m4s", b"x")
        works: list[tuple[Callable[[], Awaitable[object]], object]] = [
            (partial(objects.addresses, "videos"), ["videos/a/1.m4s"]),
            (partial(objects.addresses, "live"), []),
            (partial(objects.folder_names, "live"), set[str]()),
            (partial(objects.delete_tree, "live"), None),
        ]
        threads.runs = 0
        for count, (work, expected) in enumerate(works, 1):
            assert await work() == expected
            assert threads.runs == count


async def test_a_limit_of_time_is_for_some_files_of_a_folder(many: Path) -> None:
    threads = CountingThreads()
    with DiskObjects(many) as whole:
        objects = whole.using(threads)
        works: list[Callable[[], Awaitable[object]]] = [
            partial(objects.addresses, "videos"),
            partial(objects.sizes, "videos/a"),
            partial(objects.folder_names, "live/a"),
            partial(objects.delete_tree, "videos"),
            partial(objects.delete_tree, "live"),
        ]
        for work in works:
            before = threads.runs
            await work()
            assert threads.runs - before > MANY // 1000, work
    assert not (many / "videos").exists()
    assert not (many / "live").exists()


async def test_a_read_only_store_lists_as_much(many: Path) -> None:
    files = ReadOnlyObjects(many)
    assert len(await files.addresses("videos/a")) == MANY
    assert len(await files.folder_names("live/a")) == MANY
    assert await files.size("videos") == 0


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(0, [0], id="none"),
        pytest.param(2_000, [1000, 1000, 0], id="as many as are run at a time"),
        pytest.param(2_001, [1000, 1000, 1], id="fewer than that at last"),
    ],
)
async def test_steps_are_run_some_at_a_time(count: int, expected: list[int]) -> None:
    taken: list[int] = []

    async def run(some: Callable[[], list[int]]) -> list[int]:
        numbers = some()
        taken.append(len(numbers))
        return numbers

    assert await run_steps(iter(range(count)), run) == list(range(count))
    assert taken == expected


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "kept"
    kept.parent.mkdir()
    kept.touch()
    folder = tmp_path / "videos" / "a"
    folder.mkdir(parents=True)
    (folder / "inner").symlink_to(kept.parent)
    (folder / "file").symlink_to(kept)
    outer = tmp_path / "videos" / "b"
    outer.symlink_to(kept.parent)
    for each in (folder, outer):
        list(remove_tree(each))
        assert not each.is_symlink()
        assert not each.exists()
    assert kept.exists()


def test_what_is_gone_or_no_folder_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("gone", "file"):
        assert list(subfolders(tmp_path / name)) == []
        assert list(addresses_below(tmp_path, tmp_path / name)) == []
        assert list(remove_tree(tmp_path / name)) == []
    assert (tmp_path / "file").exists()
