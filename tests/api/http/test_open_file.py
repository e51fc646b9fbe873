"""Reading files for viewers."""

import os
from pathlib import Path

import pytest

from api.http.open_file import open_file

MEGABYTE = 1 << 20


async def test_a_file_is_read_in_pieces_of_any_range(tmp_path: Path) -> None:
    data = os.urandom(MEGABYTE + 12_345)
    path = tmp_path / "x"
    path.write_bytes(data)

    for start, stop in [(0, len(data)), (0, 1), (MEGABYTE, len(data)), (300_000, 900_001)]:
        file = open_file(path)
        pieces = [piece async for piece in file.read(start, stop)]
        file.close()
        assert b"".join(pieces) == data[start:stop]
        assert max(map(len, pieces)) <= 256 * 1024


async def test_what_is_not_in_memory_is_read_too(tmp_path: Path) -> None:
    data = os.urandom(MEGABYTE)
    path = tmp_path / "x"
    path.write_bytes(data)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    file = open_file(path)
    assert b"".join([piece async for piece in file.read(0, file.size)]) == data
    file.close()


@pytest.mark.real
async def test_a_file_that_became_shorter_is_an_error_and_not_a_short_answer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(1000))

    file = open_file(path)
    os.truncate(path, 400)
    try:
        with pytest.raises(OSError, match="truncated"):
            [piece async for piece in file.read(0, file.size)]
    finally:
        file.close()


async def test_the_file_that_was_opened_is_read_though_another_took_its_place(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "x", tmp_path / "y"
    path.write_bytes(b"old")
    other.write_bytes(b"newer")

    file = open_file(path)
    tag = file.tag
    other.replace(path)
    assert [piece async for piece in file.read(0, file.size)] == [b"old"]
    file.close()
    file = open_file(path)
    assert file.tag != tag
    file.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "x")
