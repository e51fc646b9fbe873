"""Files and servers that an engine can no longer reach, tried from inside by real children."""

import errno
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.engine.sandboxed import ON_X86_64, child, outcome, stricter
from transcode.sandbox.landlock import landlock_abi, landlock_text

ROOT = Path(__file__).parents[3]
HERE = landlock_abi()
HIDE = "from transcode.sandbox import landlock; landlock.hide_files()"
LANDLOCK = pytest.mark.skipif(HERE < 1, reason="a kernel without Landlock")
TCP = pytest.mark.skipif(HERE < 4, reason="a kernel whose Landlock knows no TCP")
SCOPED = pytest.mark.skipif(HERE < 6, reason="a kernel whose Landlock knows no scopes")


@LANDLOCK
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("open('/etc/passwd')", id="read a file"),
        pytest.param("open('old')", id="read a file here"),
        pytest.param("os.open('/proc/self/environ', os.O_RDONLY)", id="read what the kernel tells"),
        pytest.param("os.open('/proc/self/fd/0', os.O_RDONLY)", id="open anew what is open"),
        pytest.param("os.listdir('.')", id="list a folder"),
        pytest.param("open('new', 'w')", id="make"),
        pytest.param("open('old', 'a')", id="write"),
        pytest.param("os.truncate('old', 0)", id="truncate"),
        pytest.param("os.unlink('old')", id="remove"),
        pytest.param("os.rename('old', 'other')", id="rename"),
        pytest.param("os.symlink('old', 'other')", id="symlink"),
        pytest.param("os.link('old', 'other')", id="link"),
        pytest.param("os.mkdir('folder')", id="make a folder"),
        pytest.param("os.mkfifo('pipe')", id="make a pipe"),
        pytest.param("os.execv('/bin/echo', ['echo', 'done'])", id="execute"),
    ],
)
def test_files_are_reached_outside_of_the_box_only(code: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("kept")
    script = f"{code}\nprint('done')"
    assert outcome(HIDE, script, tmp_path) in ("EACCES", "EXDEV")  # EXDEV: of a link's new place
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "kept"
    assert outcome("", script, tmp_path) == "done"


@LANDLOCK
def test_what_is_left_readable_is_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("kept")
    (tmp_path / "two").write_text("hidden")
    box = "from pathlib import Path; from transcode.sandbox import landlock; "
    box += "landlock.hide_files([Path('one')])"
    assert outcome(box, "print(open('one').read())", tmp_path) == "kept"
    assert outcome(box, "open('one', 'a')", tmp_path) == "EACCES"
    assert outcome(box, "open('two')", tmp_path) == "EACCES"


@LANDLOCK
def test_what_is_open_is_read_on(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    assert outcome("file = open('old'); " + HIDE, "print(file.read())", tmp_path) == "kept"


@TCP
def test_no_server_is_reached_by_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('done')"
        assert outcome("", script) == "done"
        server.accept()[0].close()
        before = f"import socket, encodings.idna; {HIDE}"  # modules are files too
        assert outcome(before, script) == "EACCES"
        assert outcome(before, "socket.create_server(('127.0.0.1', 0))") == "EACCES"
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()


@SCOPED
def test_a_signal_reaches_no_other_process() -> None:
    assert outcome(HIDE, "os.kill(os.getppid(), 0)") == "EPERM"
    assert outcome(HIDE, "os.kill(os.getpid(), 0); print('done')") == "done"


@LANDLOCK
def test_threads_that_begin_later_are_in_the_box() -> None:
    script = """
        def attempt():
            try:
                open('/etc/passwd')
            except OSError as error:
                print(errno.errorcode[error.errno])
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        """
    assert outcome("import threading; " + HIDE, script) == "EACCES"


@LANDLOCK
def test_threads_from_before_would_stay_outside_so_there_may_be_none() -> None:
    before = (
        "import threading\nstop = threading.Event()\nthread = threading.Thread(target=stop.wait)"
    )
    script = (
        "from transcode.sandbox import landlock\n"
        "try:\n    landlock.hide_files()\nfinally:\n    stop.set()"
    )
    assert outcome(before + "\nthread.start()", script) == "EBUSY"


@LANDLOCK
def test_a_file_that_is_to_be_left_and_is_not_there_is_named() -> None:
    script = "from pathlib import Path; from transcode.sandbox import landlock\n"
    completed = child("", script + "landlock.hide_files([Path('/nowhere/a.cube')])")
    assert "SandboxError: [Errno 2] cannot leave /nowhere/a.cube readable" in completed.stderr


@LANDLOCK
def test_a_child_still_dies_with_its_parent() -> None:
    grandchild = (
        "import time; from transcode.sandbox import landlock, rlimits; "
        "rlimits.die_with_parent(); "
        "landlock.hide_files(); print('boxed', flush=True); time.sleep(60)"
    )
    parent = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {grandchild!r}]); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"boxed\n"
        finally:
            process.kill()
        # The grandchild holds the pipe open until it is gone.
        assert process.stdout.read() == b""


@ON_X86_64
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM])
def test_without_landlock_the_process_continues(number: int) -> None:
    old = stricter(number).replace("317", "444")
    script = (
        "from transcode.sandbox import landlock; "
        "print(landlock.landlock_abi(), landlock.hide_files())"
    )
    assert outcome(old, script) == "0 0"
    assert outcome(f"{old}\n{HIDE}", "print(bool(open('/etc/passwd').read()))") == "True"


@ON_X86_64
@LANDLOCK
@pytest.mark.parametrize(("call", "words"), [(445, "leave"), (446, "hide files")])
def test_a_kernel_that_offers_landlock_and_refuses_is_reported_in_a_sentence(
    call: int, words: str
) -> None:
    strict = stricter(errno.E2BIG).replace("317", str(call))
    script = "from pathlib import Path; from transcode.sandbox import landlock\n"
    completed = child(strict, script + "landlock.hide_files([Path('/etc/hostname')])")
    assert f"SandboxError: [Errno {errno.E2BIG}] cannot {words}" in completed.stderr


def test_an_engine_reads_tables_alone() -> None:
    """The attempts are made in the engine's own process, before it reads a file."""
    script = textwrap.dedent("""
        import errno, sys
        from pathlib import Path
        from transcode.engine import main as engine
        from transcode.engine.codec import frame_format as form
        def tried(*_):
            for path in ("/etc/passwd", form.__file__, Path(form.__file__).with_name("pq.cube")):
                try:
                    open(path).close()
                    sys.stderr.write("read,")
                except OSError as error:
                    sys.stderr.write(errno.errorcode[error.errno] + ",")
            return 0
        engine._make = tried
        sys.exit(engine.main(["asset"]))
    """)
    completed = subprocess.run(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, capture_output=True, check=True,
        timeout=30, cwd=ROOT,
    )  # fmt: skip
    assert completed.stderr == (b"EACCES,EACCES,read," if HERE else b"read,read,read,")


@pytest.mark.parametrize(
    ("abi", "words"), [(0, "no Landlock"), (3, "hides files from"), (4, "hides files and TCP")]
)
def test_the_abilities_of_a_kernel_are_described_in_words(abi: int, words: str) -> None:
    assert words in landlock_text(abi)
