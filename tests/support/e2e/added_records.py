"""Adds records of every kind to a service over its API."""

import httpx

from tests.support.api.upload_clips import clip
from tests.support.e2e.service import SCALE, ServiceProcess, fetch


def add_record(running: ServiceProcess, path: str, kind: str, **body: object) -> int:
    """Add a record, and return its id; `kind` is its key in the answer."""
    answer = fetch(f"{running.http}/api/{path}", method="POST", token=running.token, body=body)
    assert answer.status == 201, answer.text
    record = answer.json[kind]
    assert isinstance(record, dict)
    return record["id"]  # pyright: ignore[reportUnknownVariableType]  # JSON


def add_video(running: ServiceProcess) -> int:
    """Upload a second of a test picture, and return the id of its video."""
    answer = httpx.post(
        f"{running.http}/api/projects/1/videos",
        headers={"Authorization": f"Bearer {running.token}"},
        files={"video": ("clip.mp4", clip())},
        timeout=60 * SCALE,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["video"]["id"]
