"""Advisories of what is pinned, bundled and served: the requests, the report, and failures."""

import datetime
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import msgspec
import pytest

from scripts import advisories
from scripts.advisories import (
    LISTED_DAYS,
    FfmpegList,
    Pin,
    Result,
    advisories_of,
    check_ffmpeg,
    check_npm,
    check_pins,
    pins_in,
    report,
)

ROOT = Path(__file__).parents[2]
LIST = ROOT / "requirements" / "ffmpeg.toml"
LOCK = ROOT / "web" / "package-lock.json"
GOOD, BAD = Pin("good", "1.0"), Pin("bad", "2.0")
ADVISORY = {
    "id": "GHSA-1",
    "aliases": ["CVE-1"],
    "fixed_in": ["2.1"],
    "summary": "Runs what it reads.",
    "withdrawn": None,
}


def registry(pin: Pin) -> Mapping[str, Any]:  # Any: JSON
    return {"info": {}, "vulnerabilities": [ADVISORY] if pin == BAD else []}


def test_every_pin_of_our_own_files_is_read() -> None:
    for name in ("runtime", "dev"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        packages = [line for line in lines if line[:1].isalnum()]
        assert len(pins_in("\n".join(lines))) == len(packages) > 20
    assert pins_in("a[extra]==1.2.post3 ; x\nb_c==4 \\\n    --hash=sha256:0\n# d==1\n") == [
        Pin("a", "1.2.post3"),
        Pin("b_c", "4"),
    ]


def test_a_vulnerable_package_fails_and_names_the_fixed_version() -> None:
    text, code = report([check_pins([GOOD, BAD, GOOD], registry)])
    assert code == 1
    assert "bad 2.0: GHSA-1, CVE-1 (fixed in 2.1): Runs what it reads." in text.splitlines()
    assert "2 packages" in text


def test_packages_without_advisories_succeed() -> None:
    text, code = report([check_pins([GOOD], registry)])
    assert (text, code) == ("checked: 1 packages: no advisories", 0)


def test_a_withdrawn_advisory_is_none() -> None:
    assert advisories_of({"vulnerabilities": [{**ADVISORY, "withdrawn": "2026-01-01"}]}) == []


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("no JSON")])
def test_an_unreachable_registry_is_reported_and_fails(error: Exception) -> None:
    def away(_: Pin) -> Mapping[str, Any]:
        raise error

    text, code = report([check_pins([GOOD, BAD], away)])
    assert code == 2
    assert "NOT CHECKED: 2 of 2 packages (bad, good)" in text


def test_one_package_that_the_registry_does_not_know_fails() -> None:
    def knows_one(pin: Pin) -> Mapping[str, Any]:
        if pin == BAD:
            raise OSError("404")
        return registry(pin)

    text, code = report([check_pins([GOOD, BAD], knows_one)])
    assert code == 2
    assert "NOT CHECKED: 1 of 2 packages (bad)" in text


def test_nothing_to_check_fails() -> None:
    assert report([])[1] == 2
    assert report([check_pins([], registry)])[1] == 2


def test_a_summary_writes_nothing_else_to_the_terminal() -> None:
    text, _ = report([Result("1 packages", ["bad 2.0: \x1b[2J\nchecked: all"])])
    assert text.splitlines()[0] == "bad 2.0: \\u001b[2J\\u000achecked: all"


def test_the_command_reports_a_missing_network_and_fails(tmp_path: Path) -> None:
    pinned = tmp_path / "pins.txt"
    pinned.write_text("good==1.0\n")
    completed = subprocess.run(
        [sys.executable, "-m", "scripts.advisories", pinned],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"https_proxy": "http://127.0.0.1:9"},  # nothing listens there
        check=False,
    )
    assert (completed.returncode, completed.stderr) == (2, "")
    assert "NOT CHECKED: 1 of 1 packages (good)" in completed.stdout
    assert "FAILED" in completed.stdout


# -- the packages of the pages --------------------------------------------------------------------


@contextmanager
def npm_registry(answer: Mapping[str, Any], code: int = 200) -> Generator[dict[str, str]]:
    """Answer npm's question about advisories; yields the environment that leads it here."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps(answer if "advisories/bulk" in self.path else {}).encode()
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as inherited
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            registry = f"http://127.0.0.1:{server.server_port}"
            yield {**os.environ, "npm_config_registry": registry}
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock file of the pages, with a cache of npm's own."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK.with_name(name), tmp_path)
    (tmp_path / ".npmrc").write_text(f"cache={tmp_path / 'cache'}\n")
    return tmp_path / "package-lock.json"


def packages_of(lock: Path) -> int:
    return len(json.loads(lock.read_text())["packages"]) - 1  # the first is the project


@pytest.mark.real
def test_the_packages_of_the_pages_are_asked_about(lock: Path) -> None:
    with npm_registry({}) as environment:
        text, code = report([check_npm(lock, environment)])
    assert code == 0
    assert f"{packages_of(lock)} packages of {lock}" in text


@pytest.mark.real
def test_a_vulnerable_package_of_the_pages_fails(lock: Path) -> None:
    advisory: dict[str, object] = {
        "id": 1, "url": "https://github.com/advisories/GHSA-1", "title": "Runs what it plays",
        "severity": "high", "vulnerable_versions": "<99", "cwe": [], "cvss": {"score": 9},
    }  # fmt: skip
    other = advisory | {"url": "https://github.com/advisories/GHSA-2", "vulnerable_versions": "<0"}
    with npm_registry({"hls.js": [advisory, other]}) as environment:
        text, code = report([check_npm(lock, environment)])
    assert code == 1
    words = "https://github.com/advisories/GHSA-1 (high, in <99): Runs what it plays"
    assert f"hls.js: {words}" in text.splitlines()
    assert "GHSA-2" not in text, "an advisory of other versions"


@pytest.mark.real
def test_a_registry_of_npm_that_refuses_or_is_away_fails(lock: Path) -> None:
    with npm_registry({}, 405) as environment:
        refused, code = report([check_npm(lock, environment)])
    assert code == 2
    assert f"NOT CHECKED: {lock} (405 Method Not Allowed" in refused
    away, code = report([check_npm(lock, environment)])
    assert code == 2
    assert f"NOT CHECKED: {lock} (request to" in away


# -- FFmpeg ---------------------------------------------------------------------------------------

DAY = datetime.date(2026, 11, 28)


def listed(**changes: object) -> FfmpegList:
    entry = {"id": "CVE-1", "about": "the X decoder writes", "fixed": "8.2"}
    data = {"version": "8.1", "looked": DAY, "advisories": [entry]}
    return msgspec.convert({**data, **changes}, FfmpegList)


def test_an_advisory_of_ffmpeg_fails_unless_it_is_out_of_reach() -> None:
    text, code = report([check_ffmpeg("8.1", listed(), DAY)])
    assert code == 1
    assert text.splitlines()[0] == "FFmpeg 8.1: CVE-1 (fixed in 8.2): the X decoder writes"
    entry = {"id": "CVE-1", "about": "x", "fixed": "8.2", "unreachable": "x is not used"}
    text, code = report([check_ffmpeg("8.1", listed(advisories=[entry]), DAY)])
    assert code == 0
    assert "looked up on 2026-11-28, 1 advisories out of reach: no advisories" in text


def test_an_unknown_version_of_ffmpeg_fails() -> None:
    text, code = report([check_ffmpeg("8.1.1", listed(), DAY)])
    assert code == 2
    assert "NOT CHECKED: FFmpeg 8.1.1: look up its advisories, the list is of 8.1" in text


@pytest.mark.parametrize(("days", "code"), [(LISTED_DAYS, 0), (LISTED_DAYS + 1, 2)])
def test_an_old_list_fails(days: int, code: int) -> None:
    today = DAY + datetime.timedelta(days=days)
    text, found = report([check_ffmpeg("8.1", listed(advisories=[]), today)])
    assert found == code
    assert ("look again" in text) is (code == 2)


def test_our_own_list_is_of_the_installed_ffmpeg_and_every_entry_is_a_cve() -> None:
    ours = msgspec.toml.decode(LIST.read_text(), type=FfmpegList)
    assert ours.version == av.ffmpeg_version_info
    names = [each.id for each in ours.advisories]
    assert len(set(names)) == len(names) > 20
    assert all(name.startswith("CVE-") for name in names)


def test_the_command_checks_all_that_is_pinned_bundled_and_served() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "advisories"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in ("requirements/runtime.txt", "requirements/dev.txt", "web/package-lock.json"):
        assert name in shown
    assert LIST.relative_to(ROOT).as_posix() in shown
    assert advisories.__name__ in shown
