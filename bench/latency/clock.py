"""The time of day as black and white cells at the top of a picture.

A row of `BITS` cells, lowest bit left, and below it the same row inverted: a cell that coding or
scaling blurred does not differ enough from the one below it, and the picture then has no time
instead of a wrong one. `probe.js` reads the cells in the browser.

Times are milliseconds since the epoch, modulo `WRAP_MS`.
"""

from typing import Final

BITS: Final = 32
WRAP_MS: Final = 1 << BITS  # 49 days
ROWS: Final = 9  # the picture's height in cells: the two rows take two ninths of it
_BLACK, _WHITE = 16, 235
_CLEAR: Final = 60  # levels between a white cell and a black one, at least


def draw(luma: memoryview, stride: int, width: int, height: int, milliseconds: int) -> None:
    """Write the cells of a time into a luma plane of 8-bit samples in limited range.

    `stride` is the length of a row in bytes; `width` is a multiple of `BITS`.
    """
    side = width // BITS
    bits = [milliseconds >> column & 1 for column in range(BITS)]
    rows = height // ROWS
    for row, inverted in enumerate((0, 1)):
        levels = (_WHITE if bit ^ inverted else _BLACK for bit in bits)
        line = b"".join(bytes((level,)) * side for level in levels)
        for y in range(row * rows, (row + 1) * rows):
            luma[y * stride : y * stride + width] = line


def read(luma: memoryview, stride: int, width: int, height: int) -> int | None:
    """Return the time in a luma plane, None where the cells are not clear."""
    side, rows = width / BITS, height // ROWS
    low = rows * 3 // 4  # a button of a page may cover what is above
    time = 0
    for column in range(BITS):
        x = int((column + 0.5) * side)
        white, black = (luma[(low + row * rows) * stride + x] for row in (0, 1))
        if abs(white - black) < _CLEAR:
            return None
        time |= (white > black) << column
    return time


def since(clock: int, at: float) -> float:
    """Return the milliseconds from a clock's time to a time of day (ms since the epoch)."""
    return (at - clock + WRAP_MS / 2) % WRAP_MS - WRAP_MS / 2
