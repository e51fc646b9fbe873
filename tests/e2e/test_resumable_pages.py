"""The examples of docs/uploads.md: its shell commands, and its page in Chromium."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.test_resumable import JsonObject, MiB, sum_of, written
from tests.support.browser import Chromium
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service
from tests.support.in_thread import in_thread

pytestmark = pytest.mark.e2e

DOCS = (Path(__file__).parents[2] / "docs" / "uploads.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)


def _silent(*_words: object) -> None:
    """Log nothing."""


@contextmanager
def site(folder: Path) -> Generator[str]:
    """Serve a folder as a website on another origin."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": _silent})
    handler = functools.partial(quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with server, in_thread(server.serve_forever, server.shutdown):
        yield f"http://localhost:{server.server_port}"


def arrived(running: ServiceProcess) -> str:
    """Wait until the one video has its file; return its number."""
    deadline = time.monotonic() + 30 * SCALE
    while time.monotonic() < deadline:
        answer = fetch(f"{running.http}/api/projects/1/videos", token=running.token)
        listed: list[JsonObject] = answer.json["data"]  # type: ignore[assignment]
        if listed and not listed[0]["uploading"]:
            return str(listed[0]["id"])
        time.sleep(0.1)
    raise AssertionError("nothing came")


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    sha = written(tmp_path / "film.mp4", 3 * MiB)
    create, go_on, replace, link, form, link_for, origins = examples("sh")
    begin = create.replace('-T "$FILE"', "--data-binary 'only the beginning'")
    with service(tmp_path / "data") as running:

        def run(*commands: str) -> str:
            script = "\n".join((f"BASE={running.http}", f"TOKEN={running.token}", *commands))
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=tmp_path, capture_output=True, text=True, timeout=60 * SCALE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        whole = run(create)
        assert "HTTP/1.1 204" in whole, whole
        number = re.findall(r"headend-video-id: (\d+)", whole, re.IGNORECASE)[-1]
        assert sum_of(running, number) == sha
        sha = written(tmp_path / "film.mp4", 4 * MiB)
        assert number == "1"
        replaced = run("FILE=film.mp4", replace, create.split("\n\n")[1])
        assert "HTTP/1.1 204" in replaced, replaced
        assert sum_of(running, "1") == sha
        # The first bytes are kept, and the page's command continues after them.
        resumed = run(begin, go_on)
        assert "upload-offset: 18" in resumed.lower(), resumed
        assert "HTTP/1.1 422" in resumed or "HTTP/1.1 204" in resumed, resumed
        first_link: JsonObject = json.loads(run(link))
        uploaded: JsonObject = json.loads(run(f"LINK={first_link['upload_link']['address']}", form))
        assert uploaded["video"]["title"] == "Your greeting"
        second_link: JsonObject = json.loads(run(link_for))
        replacement: JsonObject = json.loads(
            run(f"LINK={second_link['upload_link']['address']}", form)
        )
        assert (replacement["message"], replacement["video"]["id"]) == ("File replaced.", 1)
        changed: JsonObject = json.loads(run(origins))
        assert changed["project"]["origins"] == ["https://app.example"]


def test_the_page_uploads_from_another_origin_in_chromium(
    packages: Path, browser: Chromium, tmp_path: Path
) -> None:
    (page,) = examples("html")
    shop = tmp_path / "shop"
    shop.mkdir()
    sha = written(shop / "film.mp4", 5 * MiB)
    shutil.copy(packages / "node_modules/tus-js-client/dist/tus.min.js", shop)
    choose = """async () => {
        const body = await (await fetch("film.mp4")).blob();
        const chosen = new DataTransfer();
        chosen.items.add(new File([body], "film.mp4", { type: "video/mp4" }));
        const input = document.getElementById("file");
        input.files = chosen.files;
        input.dispatchEvent(new Event("change"));
    }"""
    with service(tmp_path / "data") as running, site(shop) as origin:

        def ask(method: str, path: str, body: JsonObject) -> JsonObject:
            answer = fetch(running.http + path, method=method, token=running.token, body=body)
            assert answer.status in (200, 201), answer.text
            return answer.json

        for origins, works in ((["https://app.example"], False), ([origin], True)):
            ask("PUT", "/api/projects/1", {"origins": origins})
            link = ask("POST", "/api/projects/1/upload-links", {"title": "Sent in"})
            address = json.dumps(link["upload_link"]["address"])
            (shop / "index.html").write_text(page.replace("endpoint: LINK", f"endpoint: {address}"))
            viewer = browser.open(f"{origin}/index.html")
            viewer.evaluate(choose)
            if works:
                assert sum_of(running, arrived(running)) == sha
            else:
                viewer.wait_for_console("CORS", 30)
                listed = fetch(f"{running.http}/api/projects/1/videos", token=running.token)
                assert listed.json["data"] == []
            viewer.close()
