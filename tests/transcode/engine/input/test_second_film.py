"""Films that follow another in an MP4: an index of their own is what tells them."""

import struct
from pathlib import Path

import pytest

from tests.support.engine.made_assets import film_for
from tests.support.engine.upload_files import film, read
from transcode.engine.input.second_film import has_second_film


def box(kind: bytes, length: int = 0) -> bytes:
    return struct.pack(">I4s", 8 + length, kind) + bytes(length)


FTYP, MOOV, MDAT = box(b"ftyp", 16), box(b"moov", 30), box(b"mdat", 40)
LARGE = struct.pack(">I4sQ", 1, b"mdat", 16 + 40) + bytes(40)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(FTYP + MOOV + MDAT, False, id="one"),
        pytest.param(2 * (FTYP + MOOV + MDAT), True, id="two"),
        pytest.param(2 * (FTYP + LARGE + MOOV), True, id="with large boxes"),
        pytest.param(FTYP + MOOV + MDAT + MOOV, False, id="an index that is there twice"),
        pytest.param(2 * (FTYP + MOOV + box(b"moof") + MDAT), False, id="fragments"),
        pytest.param(FTYP + MOOV + box(b"mdat") [:4] + bytes(40), False, id="a box without a size"),
        pytest.param(b"", False, id="nothing"),
        pytest.param(
            FTYP + struct.pack(">I4sQ", 1, b"mdat", (1 << 63) - 8) + bytes(9), False, id="too far"
        ),
        pytest.param(
            FTYP + struct.pack(">I4sQ", 1, b"mdat", (1 << 64) - 8) + bytes(9), False, id="absurd"
        ),
    ],
)  # fmt: skip
def test_a_second_beginning_with_an_index_is_found(
    tmp_path: Path, data: bytes, expected: bool
) -> None:
    (tmp_path / "a.mp4").write_bytes(data)
    with (tmp_path / "a.mp4").open("rb") as file:
        assert has_second_film(file.fileno()) is expected
        for end in range(len(data)):
            file.seek(0)
            cut = tmp_path / "cut.mp4"
            cut.write_bytes(data[:end])
            with cut.open("rb") as shorter:
                assert has_second_film(shorter.fileno()) in (False, expected)


def test_an_owner_learns_that_the_second_film_is_left_out(tmp_path: Path) -> None:
    one = film(tmp_path / "a.mp4", "-c:v", "mpeg4", seconds=1, size=(64, 64), sound=None)
    (tmp_path / "b.mp4").write_bytes(2 * one.read_bytes())
    for path, count in ((one, 0), (tmp_path / "b.mp4", 1)):
        assert read("asset", path, film_for(path)).troubles.get("second film", 0) == count
