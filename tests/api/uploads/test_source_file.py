"""The file of a video, sent back to its owner whole and in parts."""

from pathlib import Path

import pytest

from api.uploads.source_file import container_suffix
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.upload_clips import clip, upload
from tests.support.storage.new_videos import new_video


async def upload_file(api_service: ApiService, name: str = "Ferien Über Øresund.mp4") -> str:
    video = (await upload(api_service, name=name))["video"]
    return f"/api/videos/{video['id']}/file"


async def test_the_whole_file_comes_back_under_its_title(api_service: ApiService) -> None:
    answer = await api_service.client.get(await upload_file(api_service), headers=api_service.owner)
    assert answer.status_code == 200
    assert answer.content == clip()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(clip()))
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == (
        'attachment; filename="ferien-uber-oresund.mp4";'
        " filename*=UTF-8''Ferien%20%C3%9Cber%20%C3%98resund.mp4"
    )


async def test_a_download_goes_on_where_it_broke_off(api_service: ApiService) -> None:
    path = await upload_file(api_service)
    tag = (await api_service.client.get(path, headers=api_service.owner)).headers["etag"]
    headers = {**api_service.owner, "Range": "bytes=100-", "If-Range": tag}
    rest = await api_service.client.get(path, headers=headers)
    assert rest.status_code == 206
    assert rest.content == clip()[100:]
    assert rest.headers["content-range"] == f"bytes 100-{len(clip()) - 1}/{len(clip())}"
    # The rest of another version must not be appended.
    other = await api_service.client.get(path, headers={**headers, "If-Range": '"other"'})
    assert other.status_code == 200
    assert other.content == clip()


async def test_a_range_behind_the_end_is_refused(api_service: ApiService) -> None:
    beyond = {**api_service.owner, "Range": f"bytes={len(clip())}-"}
    answer = await api_service.client.get(await upload_file(api_service), headers=beyond)
    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{len(clip())}"


async def test_a_token_of_another_project_finds_nothing(api_service: ApiService) -> None:
    path = await upload_file(api_service)
    other = await api_service.catalog.projects.add("Other", Change(NOW_US))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    assert (await api_service.client.get(path, headers=stranger)).status_code == 404
    assert (await api_service.client.get(path)).status_code == 401


async def test_a_video_without_its_file_says_so(
    api_service: ApiService, objects: DiskObjects
) -> None:
    project = await api_service.catalog.projects.find("1")
    assert project is not None
    added = await api_service.catalog.videos.add(project.id, new_video(), Change(NOW_US))
    answer = await api_service.client.get(
        f"/api/videos/{added.video.id}/file", headers=api_service.owner
    )
    assert answer.status_code == 404
    assert answer.json() == {
        "message": "This video has no file: it was recorded, or its file is not there any more."
    }


@pytest.mark.parametrize(
    ("head", "suffix"),
    [
        (b"\x00\x00\x00\x20ftypisom", ".mp4"),
        (b"\x00\x00\x00\x14ftypqt  ", ".mov"),
        (b"\x1a\x45\xdf\xa3\x01", ".mkv"),
        (b"RIFF\x00\x00\x00\x00AVI LIST", ".avi"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", ".wav"),
        (b"\x47" + bytes(187) + b"\x47", ".ts"),
        (b"\x47" + bytes(200), ""),
        (b"", ""),
    ],
)
def test_a_name_ends_as_the_container_wants(head: bytes, suffix: str) -> None:
    assert container_suffix(head) == suffix


def test_the_suffix_of_a_real_file_is_found(tmp_path: Path) -> None:
    assert container_suffix(clip()[:512]) == ".mp4"
