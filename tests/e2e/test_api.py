"""The lines of docs/api.md, run in a shell against a real service, in their order."""

import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api.upload_clips import clip, picture
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import SCALE, ServiceProcess, service

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture
def running(tmp_path: Path) -> Generator[ServiceProcess]:
    with service(
        tmp_path / "data", environment={"HEADEND_STORAGE__MIN_FREE_BYTES": "0"}
    ) as running:
        yield running


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_line_of_the_page_does_what_the_page_says(
    running: ServiceProcess, tmp_path: Path
) -> None:
    tool("curl")
    (tmp_path / "holidays.mp4").write_bytes(clip())
    (tmp_path / "soon.png").write_bytes(picture())
    first, *commands = blocks("sh")
    assert "http://localhost:8080" in first
    head = first.replace("http://localhost:8080", running.http)
    answers: list[dict[str, Any]] = []
    for block in commands:
        shell = subprocess.run(
            ["bash", "-euc", head + block.replace("curl -s", "curl -s --max-time 60")],
            cwd=tmp_path, capture_output=True, text=True, timeout=90 * SCALE, check=False,
        )  # fmt: skip
        assert shell.returncode == 0, block + shell.stderr
        answers.append(json.loads(shell.stdout))
    token, added, listed, edited, paused, chosen, slate, uploaded, status, *rest = answers
    trash, events, refused = rest
    assert token["token"]["project"] == 1
    assert token["secret"]
    assert added["message"] == "Stream added."
    assert added["stream"]["id"] == 2
    assert [each["title"] for each in listed["data"]] == ["Evening news"]
    assert edited["stream"]["description"] == "Every day at 8"
    assert [each["name"] for each in edited["stream"]["tags"]] == ["news"]
    assert sorted(each["code"] for each in edited["stream"]["countries"]) == ["DE", "RO"]
    # No encoder sends in this test: tests/api/streams/test_commands.py pauses a live stream.
    assert paused == {"message": "The stream is not live: there is nothing to pause."}
    assert chosen["settings"]["failover"]["mode"] == "sticky"
    assert chosen["settings"]["recording"]["enabled"] is True
    assert slate["settings"]["slate"]["picture"].startswith(f"{running.http}/slates/s-")
    assert uploaded["video"]["title"] == "Holidays"
    assert uploaded["video"]["id"] == 1
    assert set(status["data"]) == {
        "state", "progress", "eta", "attempt", "reason", "warnings", "waits_for",
    }  # fmt: skip
    assert (trash["data"], trash["meta"]["total"]) == ([], 0)
    kinds = [each["type"] for each in events["data"]]
    assert {"stream added", "stream edited", "token added", "video added"} <= set(kinds)
    assert {each["token"] for each in events["data"] if each["type"] == "stream edited"} == {1}
    examples = [json.loads(block) for block in blocks("json")]
    assert refused == examples[3]
    assert set(examples[0]["stream"]) <= set(added["stream"])
    assert set(examples[1]["data"]) == set(status["data"])
    # Each call has a line in the log, without secrets.
    running.stop()  # a line is written after its answer
    log = running.log.read_text()
    assert log.count("event=request ") == len(answers)
    assert "route=/api/projects/{project_id}/videos" in log
    for secret in (running.token, token["secret"], added["stream"]["stream"].partition("_")[2]):
        assert secret not in log


def test_every_answer_of_the_page_is_json() -> None:
    assert len(blocks("json")) == 4
    for block in blocks("json"):
        json.loads(block)
