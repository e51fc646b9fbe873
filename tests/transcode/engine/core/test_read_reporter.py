"""Reports of how much was read: once a second while there is progress, and not for ever."""

import pytest

from transcode.engine.core.read_reporter import REPORT_SECONDS, ReadReporter
from transcode.protocol.messages import BytesRead, Trouble

MIB = 1 << 20


class Reading:
    """A pass through a file by a clock that the test moves."""

    def __init__(self, size: int) -> None:
        self.now = 0.0
        self.sent: list[tuple[float, int]] = []
        self.reporter = ReadReporter(self._keep, size, lambda: self.now)

    def _keep(self, report: BytesRead | Trouble) -> None:
        assert isinstance(report, BytesRead)
        self.sent.append((self.now, report.total))

    def read(self, count: int, *, after: float) -> None:
        self.now += after
        self.reporter.add(count)


def test_a_fast_reader_reports_once_a_second() -> None:
    reading = Reading(100 * MIB)
    for _ in range(64):
        reading.read(MIB, after=1 / 32)
    assert reading.sent == [(1.0, 32 * MIB), (2.0, 64 * MIB)]


def test_a_slow_reader_reports_each_read() -> None:
    reading = Reading(100 * MIB)
    for _ in range(3):
        reading.read(MIB, after=20 * REPORT_SECONDS)
    assert reading.sent == [(20.0, MIB), (40.0, 2 * MIB), (60.0, 3 * MIB)]


def test_the_end_of_the_file_is_no_sign_of_life() -> None:
    reading = Reading(MIB)
    reading.read(MIB, after=2)
    for _ in range(10):
        reading.read(0, after=2)
    assert reading.sent == [(2.0, MIB)]


@pytest.mark.parametrize("size", [MIB, 1 << 35])
def test_a_reader_that_goes_in_a_circle_falls_silent(size: int) -> None:
    reading = Reading(size)
    for _ in range(1000):
        reading.read(max(size, 1 << 28), after=2)
    assert 0 < len(reading.sent) < 500
