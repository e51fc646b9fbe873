"""A bit reader, most significant bit first, and the error of what cannot be read.

Sources: ISO/IEC 14496-10, 7.2 and 9.1 (Exp-Golomb codes).
"""


class CodecError(ValueError):
    """The bytes are not of the expected form: the source's fault."""


class BitReader:
    """Reads numbers from a bit string; a read past the end raises `CodecError`."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self._data = data
        self._place = start
        self._end = len(data) * 8

    @property
    def place(self) -> int:
        """The number of bits before the next one that is read."""
        return self._place

    @property
    def bits_left(self) -> int:
        """The number of bits left."""
        return self._end - self._place

    def u(self, count: int) -> int:
        """Read an unsigned number of `count` bits."""
        start, end = self._place, self._place + count
        if end > self._end:
            raise CodecError("cut off in the middle of a value")
        self._place = end
        window = int.from_bytes(self._data[start >> 3 : (end + 7) >> 3], "big")
        return window >> (-end & 7) & ((1 << count) - 1)

    def flag(self) -> bool:
        """Read one bit."""
        return self.u(1) == 1

    def ue(self, most: int) -> int:
        """Read an Exp-Golomb number of at most `most`."""
        zeros = 0
        while not self.u(1):
            zeros += 1
            if zeros > 32:
                raise CodecError("an Exp-Golomb number of more than 32 bits")
        value = (1 << zeros) - 1 + self.u(zeros)
        if value > most:
            raise CodecError(f"{value} where at most {most} is allowed")
        return value

    def se(self, most: int = 1 << 31) -> int:
        """Read a signed Exp-Golomb number whose distance from 0 is at most `most`."""
        value = self.ue(2 * most)
        return (value + 1) >> 1 if value & 1 else -(value >> 1)

    def align(self) -> None:
        """Skip to the next byte boundary."""
        self._place = (self._place + 7) & ~7
