"""Small real files for uploads, made once with the command line of FFmpeg."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.support.api.application import ApiService, Json
from tests.support.e2e.publishers import tool
from tests.support.made_media import make_file

VIDEOS = "/api/projects/1/videos"


def _encode(name: str, *arguments: str) -> bytes:
    path = Path(mkdtemp()) / name
    command = [tool("ffmpeg"), "-v", "error", "-threads", "2", *arguments]
    make_file(command, path, seconds=60)
    data = path.read_bytes()
    path.unlink()
    path.parent.rmdir()
    return data


@cache
def clip(size: str = "640x360", seconds: str = "1") -> bytes:
    """An MP4 of H.264 and AAC."""
    return _encode(
        "clip.mp4",
        "-f", "lavfi", "-i", f"testsrc2=size={size}:rate=10:duration={seconds}",
        "-f", "lavfi", "-i", f"sine=duration={seconds}",
        "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac",
    )  # fmt: skip


@cache
def picture(kind: str = "png", size: str = "320x240") -> bytes:
    """One picture: png, jpg or webp."""
    return _encode(f"picture.{kind}", "-f", "lavfi", "-i", f"testsrc=size={size}", "-frames:v", "1")


async def upload(
    api_service: ApiService,
    *,
    name: str = "clip.mp4",
    data: bytes | None = None,
    texts: dict[str, str] | None = None,
    files: dict[str, Any] | None = None,  # Any: httpx takes several forms
    path: str = VIDEOS,
) -> Json:
    """Upload a clip and return its record."""
    answer = await api_service.client.post(
        path,
        files={"video": (name, data or clip(), "video/mp4"), **(files or {})},
        data=texts or {},
        headers=api_service.owner,
    )
    assert answer.status_code == 201, answer.text
    return answer.json()
