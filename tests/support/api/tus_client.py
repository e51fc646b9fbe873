"""A client of resumable uploads, request by request."""

import base64
from typing import Any

import httpx

from tests.support.api.application import ApiService
from tests.support.api.upload_clips import clip

UPLOADS = "/api/projects/1/uploads"
TUS = {"Tus-Resumable": "1.0.0"}
OFFSETS = {"Content-Type": "application/offset+octet-stream"}


def metadata(**values: str) -> str:
    """Return `Upload-Metadata` with these keys."""
    pairs = (f"{key} {base64.b64encode(text.encode()).decode()}" for key, text in values.items())
    return ",".join(pairs)


def path_of(answer: httpx.Response) -> str:
    """Return the path of a response's `Location`."""
    return httpx.URL(answer.headers["location"]).path


async def create(
    api_service: ApiService, length: int | None = None, *, path: str = UPLOADS, **headers: str
) -> str:
    """Create an upload of a clip, and return its path."""
    upload_length = {"Upload-Length": str(len(clip()) if length is None else length)}
    answer = await api_service.client.post(
        path,
        headers={
            **api_service.owner,
            **TUS,
            **upload_length,
            **{k.replace("_", "-"): v for k, v in headers.items()},
        },
    )
    assert answer.status_code == 201, answer.text
    return path_of(answer)


async def send(
    api_service: ApiService,
    path: str,
    offset: int,
    data: bytes,
    headers: dict[str, str] | None = None,
    **options: Any,  # Any: what httpx takes
) -> httpx.Response:
    """Append bytes."""
    all_headers = {
        **api_service.owner,
        **TUS,
        **OFFSETS,
        "Upload-Offset": str(offset),
        **(headers or {}),
    }
    return await api_service.client.patch(path, headers=all_headers, content=data, **options)
