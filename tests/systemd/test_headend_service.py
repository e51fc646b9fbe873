"""systemd accepts the units without a warning; they are hardened, and their programs run so.

There is no systemd as process 1 where tests run. So the restrictions that the kernel itself can be
asked for are put on by `confine.py`, read from the unit file; docs/deploy.md names those that are
not tried here.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.systemd.confine import directives

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = sorted((ROOT / "systemd").iterdir())
SERVICES: Final = [unit for unit in UNITS if unit.suffix == ".service"]
UNIT: Final = ROOT / "systemd" / "headend.service"
INGEST, API, MIGRATE = (
    ROOT / "systemd" / f"headend-{role}.service" for role in ("ingest", "api", "migrate")
)
BACKUP: Final = ROOT / "systemd" / "headend-backup.service"
TRANSCODE: Final = ROOT / "systemd" / "headend-transcode@.service"
CONFINE: Final = ROOT / "tests" / "support" / "systemd" / "confine.py"
# Slow machines scale every deadline at once.
SCALE: Final = float(os.environ.get("HEADEND_TEST_SCALE", "1"))
EXPOSURE: Final = 2.5  # systemd's scale: 0 is closed, 10 is open


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All units, as they name each other, with a command that exists."""
    for unit in UNITS:
        text = unit.read_text()
        changed = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)
        assert (changed != text) == (unit in SERVICES)
        (tmp_path / unit.name).write_text(changed)
    return tmp_path


def name(path: Path) -> str:
    return path.name


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True, text=True, check=False, timeout=60 * SCALE,
    )  # fmt: skip


def confined(*command: str | Path, unit: Path = UNIT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CONFINE, unit, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * SCALE,
    )


@pytest.mark.parametrize("unit", UNITS, ids=name)
def test_systemd_accepts_the_unit_without_warnings(folder: Path, unit: Path) -> None:
    # Its exit code is 0 even for a directive that does not exist.
    output = analyze("verify", "--man=no", folder / unit.name)
    assert (output.stdout, output.stderr, output.returncode) == ("", "", 0)


def test_systemd_does_speak_up_about_a_misspelt_directive(folder: Path) -> None:
    unit = folder / UNIT.name
    unit.write_text(unit.read_text().replace("NoNewPrivileges=", "NoNewPriviliges="))
    assert "NoNewPriviliges" in analyze("verify", "--man=no", unit).stderr


@pytest.mark.parametrize("unit", SERVICES, ids=name)
def test_each_service_runs_the_packaged_program_with_the_same_settings(unit: Path) -> None:
    lines = directives(unit)
    assert lines["ExecStart"][0].startswith("/opt/headend/bin/headend ")
    assert "HEADEND_CONFIG=/etc/headend/headend.toml" in lines["Environment"]
    assert lines["EnvironmentFile"] == ["-/etc/headend/headend.env"]


@pytest.mark.parametrize("unit", UNITS, ids=name)
def test_each_unit_names_a_page_that_is_installed(unit: Path) -> None:
    assert re.findall(r"^Documentation=(.*)$", unit.read_text(), re.MULTILINE) == ["man:headend(8)"]


@pytest.mark.parametrize("unit", SERVICES, ids=name)
def test_the_exposure_that_systemd_reckons_stays_low(folder: Path, unit: Path) -> None:
    output = analyze("security", "--offline=yes", "--no-pager", folder / unit.name).stdout
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", output)
    assert level is not None, output
    assert float(level[1]) <= EXPOSURE


@pytest.mark.parametrize(
    ("unit", "drain"),
    [(UNIT, 20), (INGEST, 20), (API, 5), (TRANSCODE, 20)],  # seconds
    ids=["headend", "ingest", "api", "transcode"],
)
def test_a_drain_fits_into_the_time_to_stop(unit: Path, drain: int) -> None:
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) >= drain + 5  # what a loaded machine adds


def test_the_two_ways_of_running_exclude_each_other() -> None:
    whole = directives(UNIT)["Conflicts"]
    assert whole == [f"{INGEST.name} {API.name} headend.target"]
    for half in (INGEST, API, TRANSCODE, MIGRATE):
        assert directives(half)["Conflicts"] == [UNIT.name]


@pytest.mark.parametrize("unit", SERVICES, ids=name)
def test_no_service_takes_all_of_the_memory(unit: Path) -> None:
    (most,) = directives(unit)["MemoryMax"]
    assert 0 < int(most.removesuffix("%")) < 90
    if unit not in (MIGRATE, BACKUP):  # which start no engines
        assert directives(unit)["OOMPolicy"] == ["continue"]


CODEC_ROUND: Final = """
import fractions, io
import av

made = io.BytesIO()
with av.open(made, "w", format="mp4") as out:
    picture = out.add_stream("libx264", rate=25, options={"preset": "veryfast", "threads": "2"})
    picture.width, picture.height, picture.pix_fmt = 320, 180, "yuv420p"
    sound = out.add_stream("aac", rate=48000)
    sound.layout = "stereo"
    for number in range(50):
        frame = av.VideoFrame(640, 360, "yuv420p").reformat(320, 180)
        frame.pts, frame.time_base = number, fractions.Fraction(1, 25)
        out.mux(picture.encode(frame))
        samples = av.AudioFrame("fltp", "stereo", 1024)
        samples.sample_rate, samples.pts = 48000, number * 1024
        for plane in samples.planes:
            plane.update(bytes(plane.buffer_size))
        out.mux(sound.encode(samples))
    out.mux(picture.encode(None))
    out.mux(sound.encode(None))
made.seek(0)
with av.open(made) as read:
    print(sum(1 for _ in read.decode(video=0)), "frames")
made.seek(0)
with av.open(made) as read:
    print(sum(frame.samples for frame in read.decode(audio=0)), "samples")
"""

TEMPTATIONS: Final = """
import mmap, os, socket

def refused(name, attempt):
    try:
        attempt()
    except OSError:
        print("refused", name)
    else:
        print("ALLOWED", name)

refused("writable code", lambda: mmap.mmap(-1, 4096, prot=7))
refused("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
refused("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
refused("chroot", lambda: os.chroot("/"))
refused("chown", lambda: os.chown("/tmp", 0, 0))
refused("realtime", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
socket.socket(socket.AF_INET6).close()
os.setpriority(os.PRIO_PROCESS, 0, min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3))
print(open("/proc/self/status").read())
"""

DENYING_SOCKETS: Final = """
import ctypes, socket, struct

# seccomp(2): load the number of the call; socket is 41 on x86-64 and 198 on aarch64; -EACCES.
import platform
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x5000D), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
assert ctypes.CDLL(None).prctl(22, 2, program) == 0
try:
    socket.socket(socket.AF_INET)
except PermissionError:
    print("no socket")
"""


def test_decoding_and_encoding_bear_the_restrictions() -> None:
    completed = confined(sys.executable, "-I", "-c", CODEC_ROUND)
    assert completed.stdout.split("\n")[:2] == ["50 frames", f"{50 * 1024} samples"], (
        completed.stderr
    )


def test_the_restrictions_are_really_on() -> None:
    completed = confined(sys.executable, "-I", "-c", TEMPTATIONS)
    assert "ALLOWED" not in completed.stdout
    assert completed.stdout.count("refused") == 6, completed.stderr
    assert re.search(r"^CapBnd:\s+0+$", completed.stdout, re.MULTILINE), completed.stderr
    assert re.search(r"^NoNewPrivs:\s+1$", completed.stdout, re.MULTILINE)


def test_an_engine_may_still_deny_itself_the_network() -> None:
    completed = confined(sys.executable, "-I", "-c", DENYING_SOCKETS)
    assert completed.stdout == "no socket\n", completed.stderr


def test_an_engine_may_still_hide_all_files() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from transcode.sandbox.landlock import *\n"
        "print(landlock_abi(), hide_files())\n"
        "try: open('/etc/hostname')\nexcept PermissionError: print('hidden')\n"
    )
    alone = subprocess.run(
        [sys.executable, "-I", "-c", script, str(ROOT)], check=True, capture_output=True, text=True
    )
    assert confined(sys.executable, "-I", "-c", script, str(ROOT)).stdout == alone.stdout


def printed_by(line: str, printed: str) -> str:
    match = re.search(rf"^\s+{line}\s+(\S+)$", printed, re.MULTILINE)
    assert match is not None, printed
    return match[1]


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10 * SCALE) as answer:
        return answer.read()


def published(playlist: str, deadline: float) -> bool:
    """Whether each rendition of a live playlist has a segment that can be fetched, in time."""
    while time.monotonic() < deadline:
        try:
            renditions = [line for line in read(playlist).decode().split("\n") if ".m3u8" in line]
            names = [re.sub(r'.*URI="([^"]+)".*', r"\1", line) for line in renditions]
            for media in (urllib.parse.urljoin(playlist, each) for each in names):
                lines = read(media).decode().split("\n")
                segment = next(line for line in lines if line and not line.startswith("#"))
                assert len(read(urllib.parse.urljoin(media, segment))) > 1000
        except (urllib.error.HTTPError, StopIteration):
            time.sleep(0.1)  # not there yet; the deadline above bounds it
        else:
            if len(names) >= 3:  # the source's own packets, an encoded rung, sound
                return True
            time.sleep(0.1)  # a busy machine may make the encoded one later
    return False


HEADEND: Final = Path(sys.executable).with_name("headend")
NOWHERE: Final = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--rtmps", "127.0.0.1:0")


@contextmanager
def boxed(unit: Path, role: str, data: Path, *ports: str, listens: bool = True) -> Generator[str]:
    """Run a role in its unit's box: told to systemd when ready, drained at the block's end.

    Yields what it printed.
    """
    place = data.with_name(role)
    place.mkdir()
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(place / "notify"))
    manager.settimeout(30 * SCALE)
    command = [sys.executable, CONFINE, unit, HEADEND, role, "--data", data]
    command += [*NOWHERE, *ports] if listens else []
    environment = {**os.environ, "NOTIFY_SOCKET": str(place / "notify")}
    with (
        manager,
        (place / "printed").open("w") as printed,
        (place / "log").open("w") as log,
        subprocess.Popen(command, stdout=printed, stderr=log, env=environment) as service,
    ):
        try:
            assert b"READY=1" in manager.recv(4096)
            yield (place / "printed").read_text()
        finally:
            service.terminate()
            code = service.wait(30 * SCALE)
    assert code == 0, (place / "log").read_text()


def first_key(data: Path) -> str:
    """Return the key of the first stream, which a role prints to terminals only."""
    printed = subprocess.run(
        [HEADEND, "streams", "--data", data], capture_output=True, text=True, check=True
    ).stdout
    return printed.split("\t")[2]


def playing(target: str, watch: str) -> bool:
    """Whether a published picture comes out as a ladder."""
    publish = [
        *("ffmpeg", "-nostdin", "-loglevel", "error", "-re"),
        *("-f", "lavfi", "-i", "testsrc2=size=854x480:rate=25"),
        *("-f", "lavfi", "-i", "sine", "-c:v", "libx264", "-preset", "ultrafast"),
        *("-g", "50", "-c:a", "aac", "-t", str(60 * SCALE), "-f", "flv", target),
    ]
    with subprocess.Popen(publish, stderr=subprocess.DEVNULL) as encoder:
        try:
            playlist = watch.replace("/watch/", "/live/") + "/index.m3u8"
            return published(playlist, time.monotonic() + 30 * SCALE)
        finally:
            encoder.kill()


@pytest.mark.e2e
def test_the_whole_service_bears_the_restrictions(tmp_path: Path) -> None:
    """It notifies systemd, encodes a ladder, and drains, all within the sandbox."""
    with boxed(UNIT, "serve", tmp_path / "data") as printed:
        target = f"{printed_by('Server', printed)}/{first_key(tmp_path / 'data')}"
        assert playing(target, printed_by("Watch", printed))


def film_bytes() -> bytes:
    """Return 4 s of a picture and a tone."""
    make = [
        *("ffmpeg", "-nostdin", "-loglevel", "error"),
        *("-f", "lavfi", "-i", "testsrc2=size=854x480:rate=25:duration=4"),
        *("-f", "lavfi", "-i", "sine=duration=4", "-c:v", "libx264", "-preset", "ultrafast"),
        *("-g", "50", "-c:a", "aac", "-f", "mp4", "-movflags", "frag_keyframe+empty_moov", "-"),
    ]
    return subprocess.run(make, stdout=subprocess.PIPE, check=True).stdout


def uploaded(http: str, token: str, film: Path) -> str:
    """Upload a film; return its playlist."""
    completed = subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "30"),
            *("-H", f"Authorization: Bearer {token}", "-F", f"video=@{film}"),
            f"{http}/api/projects/1/videos",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return json.loads(completed.stdout)["video"]["video"]


@pytest.mark.e2e
@pytest.mark.prove
def test_each_of_the_services_apart_bears_its_own(tmp_path: Path) -> None:
    """The same with migration, ingest, API and transcoding, each in its own unit's sandbox."""
    data = tmp_path / "data"
    completed = confined(HEADEND, "migrate", "--data", data, unit=MIGRATE)
    assert completed.returncode == 0, completed.stderr
    with boxed(INGEST, "ingest", data, "--status", "127.0.0.1:0") as printed:
        server = printed_by("Server", printed)
        target = f"{server}/{first_key(data)}"
        ports = [server.split("/")[2], printed_by("Over TLS", printed).split("/")[2]]
        with boxed(API, "api", data, "--rtmp", ports[0], "--rtmps", ports[1]) as printed:
            watch = printed_by("Watch", printed)
            assert playing(target, watch)
            token = (data / "owner.token").read_text().strip()
            film = tmp_path / "film.mp4"
            film.write_bytes(film_bytes())
            playlist = uploaded(watch.rpartition("/watch/")[0], token, film)
            with boxed(TRANSCODE, "transcode", data, listens=False):
                assert published(playlist, time.monotonic() + 60 * SCALE)


@pytest.mark.parametrize("unit", [MIGRATE], ids=name)
def test_what_makes_no_engine_may_not_change_its_priority(unit: Path) -> None:
    completed = confined(
        sys.executable, "-I", "-c", "import os; os.setpriority(os.PRIO_PROCESS, 0, 5)", unit=unit
    )
    assert "PermissionError" in completed.stderr
