"""Uploads videos to a service with the real curl, and reads their state from the API."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.e2e.publishers import tool
from tests.support.e2e.service import SCALE, ServiceProcess, fetch
from tests.support.waiting import poll

Json = dict[str, Any]  # Any: what the tests are about to find out


def upload(headend: ServiceProcess, path: Path, **fields: str) -> tuple[int, Json]:
    """Upload a file with the real curl, and return the status and the response."""
    forms = [item for name, text in fields.items() for item in ("-F", f"{name}={text}")]
    done = subprocess.run(
        [
            *(tool("curl"), "-sS", "-w", "\n%{http_code}", "-F", f"video=@{path}", *forms),
            *("-H", f"Authorization: Bearer {headend.token}"),
            f"{headend.http}/api/projects/1/videos",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60 * SCALE,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body)


def get_json(headend: ServiceProcess, path: str) -> Json:
    answer = fetch(f"{headend.http}{path}", token=headend.token)
    assert answer.status == 200, answer.text
    record = answer.json["data"]
    assert isinstance(record, dict)
    return record  # pyright: ignore[reportUnknownVariableType]  # JSON


def completed(headend: ServiceProcess, video: int, *, within: float) -> list[Json]:
    """Wait until a video is finished, and return its record at each poll."""
    looks: list[Json] = []

    def is_over() -> bool:
        looks.append(get_json(headend, f"/api/videos/{video}/status"))
        return looks[-1]["state"] in ("completed", "failed")

    poll(is_over, within=within, what="the video's end")
    assert looks[-1]["state"] == "completed", looks[-1]
    return looks
