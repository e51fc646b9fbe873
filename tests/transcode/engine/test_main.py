"""The engine as a process: how it starts, what it may access, how it ends."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

import pytest

from media.hls.segment import Part, Segment
from tests.support.engine.engine_process import begin, orders, run_raw
from tests.support.engine.programmes import CodedSound, programme
from tests.support.engine.sources import Source
from tests.support.transcode.sparse_files import unclosed_flv
from tests.support.waiting import poll
from transcode.protocol.messages import (
    Begin,
    EngineReport,
    EpochFinished,
    Finish,
    Progress,
    WireReader,
    pack,
)
from transcode.protocol.watch_messages import Compare, Compared, Watch, WatchedSound

DEADLINE = 20.0  # seconds: what a loaded machine needs for what takes one
COMMAND = [sys.executable, "-m", "transcode.engine", "live", "test"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                pipe_of(process.stdin).close()


def pipe_of(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


@contextlib.contextmanager
def fed(
    child: subprocess.Popen[bytes], data: bytes, *, step: int = 1 << 20
) -> Generator[IO[bytes]]:
    """Write on a thread while the block reads: an engine stops if its output is not read."""
    entrance = pipe_of(child.stdin)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            for index in range(0, len(data), step):
                entrance.write(data[index : index + step])
                entrance.flush()

    writing = threading.Thread(target=write)
    writing.start()
    yield entrance
    writing.join(DEADLINE)


def reports_until(child: subprocess.Popen[bytes], kind: type[EngineReport]) -> list[EngineReport]:
    """Read the engine's reports until one of this kind."""
    reader: WireReader[EngineReport] = WireReader(EngineReport)
    output = pipe_of(child.stdout).fileno()
    until = time.monotonic() + DEADLINE
    reports: list[EngineReport] = []
    while not any(isinstance(report, kind) for report in reports):
        readable, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
        assert readable, f"no {kind.__name__} in {DEADLINE} s"
        data = os.read(output, 1 << 16)
        assert data, f"it ended without a {kind.__name__}"
        reports += reader.feed(data)
    return reports


def test_the_end_of_input_is_the_end() -> None:
    output = run_raw(b"")
    assert (output.status, output.reports, output.complaints) == (0, [], "")


def test_the_end_of_input_finishes_what_was_begun(small: Source) -> None:
    half = small.packets[: len(small.packets) // 2]
    output = run_raw(b"".join(pack(order) for order in [begin(small), *half]))
    assert output.status == 0
    (finished,) = output.of(EpochFinished)
    count = sum(packet.video for packet in half)
    assert finished.frames_out["360p"] == finished.frames_in == count


@pytest.mark.parametrize("arguments", [("record",), ("live2", "x")])
def test_a_wrong_call_prints_the_usage(arguments: tuple[str, ...]) -> None:
    output = run_raw(b"", *arguments)
    assert output.status == 2
    assert output.complaints.startswith("usage: ")


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 64, b"\0\0\0\3abc", b"\0\0\0\1\xc0", pack(Finish()) + b"\x7f\xff\xff\xff"],
)
def test_orders_that_are_none_end_it(data: bytes) -> None:
    output = run_raw(data)
    assert output.status == 2
    assert output.complaints.startswith("invalid orders")


def test_orders_may_come_in_any_portions(small: Source, child: subprocess.Popen[bytes]) -> None:
    data = b"".join(pack(order) for order in orders(small, begin(small, reuse=False)))
    with fed(child, data, step=4_093):
        reports = reports_until(child, EpochFinished)
    assert sum(isinstance(report, Segment) for report in reports) == 4


def test_a_part_goes_out_while_its_segment_grows(
    small: Source, child: subprocess.Popen[bytes]
) -> None:
    first = small.pictures[0].dts
    packets = [packet for packet in small.packets if packet.dts <= first + 600]
    with fed(child, b"".join(pack(order) for order in [begin(small), *packets])):
        reports = reports_until(child, Part)
    (part,) = [report for report in reports if isinstance(report, Part)][:1]
    assert (part.sequence, part.index, part.independent) == (0, 0, True)
    assert not any(isinstance(report, Segment) for report in reports)


def test_what_asks_a_whole_service_to_stop_does_not_stop_it(
    small: Source, child: subprocess.Popen[bytes]
) -> None:
    data = b"".join(pack(order) for order in [begin(small), *small.packets])
    with fed(child, data) as entrance:
        reports_until(child, Segment)
        for number in (signal.SIGTERM, signal.SIGINT):
            child.send_signal(number)
        reports_until(child, Progress)
    entrance.close()
    reports_until(child, EpochFinished)
    assert child.wait(DEADLINE) == 0


def test_the_engine_ends_when_its_output_is_not_read(
    small: Source, child: subprocess.Popen[bytes]
) -> None:
    pipe_of(child.stdout).close()
    with fed(child, b"".join(pack(order) for order in orders(small, begin(small)))):
        assert child.wait(DEADLINE) == 1
    assert pipe_of(child.stderr).read() == b""


def test_the_engine_is_sandboxed_before_it_reads(child: subprocess.Popen[bytes]) -> None:
    empty = Begin(
        epoch=0, video=None, audio=None, ladder=None, start=0, sequence=0, inits={},
        discontinuity=False,
    )  # fmt: skip
    with fed(child, bytes(pack(empty) + pack(Finish()))):
        reports_until(child, EpochFinished)
    facts = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in facts}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2", "a filter is set"
    for task in Path(f"/proc/{child.pid}/task").iterdir():
        assert "Seccomp:\t2" in (task / "status").read_text(), "on every thread"
    limits = Path(f"/proc/{child.pid}/limits").read_text().splitlines()
    sizes = next(line for line in limits if line.startswith("Max file size"))
    assert sizes.split()[3:5] == ["0", "0"]


@pytest.mark.parametrize(
    ("kind", "niceness", "policy"),
    [("live", 5, None), ("asset", 7, os.SCHED_BATCH), ("probe", 10, os.SCHED_BATCH)],
)
def test_engines_of_files_have_a_lower_priority_than_live_ones(
    kind: str, niceness: int, policy: int | None
) -> None:
    script = textwrap.dedent("""
        import os, sys
        from transcode.engine import main as engine
        def told(*_):
            sys.stderr.write(f"{os.nice(0)} {os.sched_getscheduler(0)}")
            return 0
        engine._live = engine._read = told
        sys.exit(engine.main(sys.argv[1:]))
    """)
    completed = subprocess.run(
        [sys.executable, "-c", script, kind], stdin=subprocess.DEVNULL, capture_output=True,
        check=True, timeout=60, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    most = 19  # the kernel's: these tests may be run with niceness, too
    if policy is None:
        policy = os.sched_getscheduler(0)  # inherited from the parent
    assert completed.stderr.split() == [b"%d" % min(most, os.nice(0) + niceness), b"%d" % policy]


def test_no_event_loop_network_or_database_comes_along(small: Source) -> None:
    data = b"".join(pack(order) for order in orders(small, begin(small, reuse=False)))
    completed = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:]],
        input=data,
        capture_output=True,
        check=True,
        timeout=60,
    )
    lines = completed.stderr.decode().splitlines()
    modules = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time")}
    assert {"av.codec.context", "transcode.engine.live.epoch", "media.hls.fmp4"} <= modules
    tops = {module.partition(".")[0] for module in modules}
    # typing_extensions imports one type from _socket; the sandbox denies the rest.
    assert not tops & {
        *("asyncio", "socket", "ssl", "_ssl", "selectors", "http", "sqlite3", "multiprocessing"),
        *("sqlalchemy", "litestar", "redis", "numpy", "storage", "ingest", "api", "headend"),
    }
    assert "urllib.request" not in modules


def test_a_large_file_gets_the_processor_time_to_be_read_whole(tmp_path: Path) -> None:
    """A probe has 20 s for a small file; one of 20 GB without an index takes longer."""
    path = unclosed_flv(tmp_path / "a.flv", 1250)
    command = [sys.executable, "-m", "transcode.engine", "probe"]
    with path.open("rb") as file:
        assert file.seek(0, os.SEEK_END) > 20_000_000_000
        file.seek(0)
        with subprocess.Popen(command, stdin=file, stdout=subprocess.DEVNULL) as process:
            limit = poll(lambda: cpu_limit(process.pid), what="a limit")
            process.kill()
    assert limit >= 20 + 20_000_000_000 // 50_000_000


def cpu_limit(pid: int) -> int | None:
    """The processor time that a process may use in seconds; None if there is no limit (yet)."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max cpu time"):
            most = line.split()[3]
            return int(most) if most.isdecimal() else None
    return None


def test_a_watch_engine_compares_inside_its_box_on_one_thread() -> None:
    sound = CodedSound(programme(12, seed=8))
    orders_ = [
        order
        for number in (0, 1)
        for order in (
            Watch(source=number, audio=sound.track),
            WatchedSound(source=number, packets=sound.packets),
        )
    ]
    near, wide = (Compare(reference=0, other=1, seconds=3, near_us=us) for us in (0, None))
    data = bytes(pack(*orders_, near, wide))
    command = [sys.executable, "-m", "transcode.engine", "watch", "test"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        pipe_of(process.stdin).write(data)
        pipe_of(process.stdin).flush()
        reader: WireReader[EngineReport] = WireReader(EngineReport)
        answers: list[EngineReport] = []
        while len(answers) < 2:
            answered = os.read(pipe_of(process.stdout).fileno(), 1 << 18)
            assert answered, "the engine has ended"
            answers += reader.feed(answered)
        threads = list(Path(f"/proc/{process.pid}/task").iterdir())
        pipe_of(process.stdin).close()
        assert process.wait(DEADLINE) == 0
    offsets = [each.offset_us for each in answers if isinstance(each, Compared)]
    assert offsets == [0, 0]
    assert len(threads) == 1
