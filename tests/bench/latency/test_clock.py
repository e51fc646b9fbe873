"""The time of day in a picture: what is drawn can be read again."""

import pytest

from bench.latency.clock import BITS, ROWS, WRAP_MS, draw, read, since


@pytest.mark.parametrize("time", [0, 1, 0x5A5A5A5A, WRAP_MS - 1])
def test_the_cells_are_the_bits_and_below_them_their_inverse(time: int) -> None:
    width, height, stride = 2 * BITS, 2 * ROWS, 2 * BITS + 3
    plane = bytearray(b"\x80" * stride * height)
    draw(memoryview(plane), stride, width, height, time)
    rows = [plane[y * stride : y * stride + width] for y in range(4)]
    assert rows[0] == rows[1]
    assert rows[2] == rows[3]
    white, black = (
        sum((row[2 * column] > 128) << column for column in range(BITS))
        for row in (rows[0], rows[2])
    )
    assert white == time
    assert read(memoryview(plane), stride, width, height) == time
    assert black == WRAP_MS - 1 - time
    assert set(plane[4 * stride :]) == {0x80}, "what is below the cells is left as it was"
    assert all(set(plane[y * stride + width : (y + 1) * stride]) == {0x80} for y in range(4))


def test_a_plane_without_clear_cells_has_no_time() -> None:
    assert read(memoryview(b"\x80" * 4 * BITS * ROWS), 2 * BITS, 2 * BITS, 2 * ROWS) is None


def test_the_time_since_a_clock_continues_when_the_clock_wraps() -> None:
    day = 1_800_000_000_000
    assert since((day - 250) % WRAP_MS, day) == 250
    assert since((day + 40) % WRAP_MS, day) == -40
    wrapped = day - day % WRAP_MS
    assert since(WRAP_MS - 10, wrapped + 20) == 30
