"""Reports on a pipe: whole, whatever thread writes them, and no flood of troubles."""

import os
import threading
from collections.abc import Generator

import pytest

from transcode.engine.core.reports import ReportWriter
from transcode.protocol.messages import BytesRead, EngineReport, Poster, Trouble, WireReader


class ReportPipe:
    """A pipe whose reader collects reports in a thread until the writer is closed."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self.writer = ReportWriter(self.writing)
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while data := os.read(self._reading, 1 << 16):
            self._data += data

    def end(self) -> list[EngineReport]:
        """Close the writing end; return all that came."""
        os.close(self.writing)
        self._thread.join()
        os.close(self._reading)
        reader: WireReader[EngineReport] = WireReader(EngineReport)
        return reader.feed(bytes(self._data))


@pytest.fixture
def pipe() -> Generator[ReportPipe]:
    report_pipe = ReportPipe()
    yield report_pipe


def test_a_report_larger_than_the_pipe_is_written_whole(pipe: ReportPipe) -> None:
    report = Poster(label="720p", width=1, height=1, data=bytes(range(256)) * 4096)
    pipe.writer.send(report)
    assert pipe.end() == [report]


def test_reports_of_several_threads_do_not_mix(pipe: ReportPipe) -> None:
    sizes = (1, 70_000, 200_000)

    def send(thread: int) -> None:
        for size in sizes:
            data = bytes([thread]) * size
            pipe.writer.send(Poster(label=str(thread), width=1, height=1, data=data))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    posters = [each for each in pipe.end() if isinstance(each, Poster)]
    for number in range(4):
        own_posters = [each.data for each in posters if each.label == str(number)]
        assert own_posters == [bytes([number]) * size for size in sizes]


def test_repeated_troubles_are_one_report_with_the_newest_detail(pipe: ReportPipe) -> None:
    for number in range(5):
        pipe.writer.count_trouble("picture not decoded", f"error {number}")
    pipe.writer.count_trouble("times leap", "x" * 1000)
    pipe.writer.flush_troubles()
    pipe.writer.flush_troubles()  # nothing is sent twice
    pipe.writer.send(BytesRead(total=1))
    assert pipe.end() == [
        Trouble(what="picture not decoded", detail="error 4", count=5),
        Trouble(what="times leap", detail="x" * 200, count=1),
        BytesRead(total=1),
    ]


def test_a_flush_waits_for_that_of_another_thread() -> None:
    reading, writing = os.pipe()
    writer = ReportWriter(writing)
    os.set_blocking(writing, False)
    filled = 0
    while written := _write_more(writing):
        filled += written
    os.set_blocking(writing, True)
    writer.count_trouble("picture not decoded")
    first, second = (threading.Thread(target=writer.flush_troubles) for _ in range(2))
    first.start()
    first.join(0.1)  # it waits for the reader
    second.start()
    second.join(0.1)
    assert second.is_alive(), "the trouble is not written yet"
    while filled:
        filled -= len(os.read(reading, filled))
    first.join()
    second.join()
    os.close(writing)
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    trouble = Trouble(what="picture not decoded", detail="", count=1)
    assert reader.feed(os.read(reading, 1 << 16)) == [trouble]
    os.close(reading)


def _write_more(pipe: int) -> int:
    """Write to a pipe; return how much it took, 0 if it is full."""
    try:
        return os.write(pipe, bytes(4096))
    except BlockingIOError:
        return 0


def test_kinds_of_trouble_are_bounded_and_known_ones_are_still_counted(pipe: ReportPipe) -> None:
    for number in range(100):
        pipe.writer.count_trouble(f"kind {number}")
    pipe.writer.count_trouble("kind 0")
    pipe.writer.flush_troubles()
    troubles = [each for each in pipe.end() if isinstance(each, Trouble)]
    assert [each.what for each in troubles] == [f"kind {number}" for number in range(64)]
    assert troubles[0].count == 2


def test_a_parent_that_is_gone_ends_the_writer() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        ReportWriter(writing).send(BytesRead(total=1))
    os.close(writing)
