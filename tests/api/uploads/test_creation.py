"""Which creations of uploads are refused."""

import pytest

from storage.objects.disk import DiskObjects
from tests.api.uploads.test_single_request import nothing_is_left
from tests.support.api.application import ApiService
from tests.support.api.tus_client import TUS, UPLOADS, metadata

CREATIONS: tuple[tuple[str, dict[str, str], int], ...] = (
    ("no version", {"Tus-Resumable": "", "Upload-Length": "9"}, 412),
    ("another version", {"Tus-Resumable": "0.2.2", "Upload-Length": "9"}, 412),
    ("no length", {}, 400),
    ("two lengths", {"Upload-Length": "9", "Upload-Defer-Length": "1"}, 400),
    ("a wrong deferral", {"Upload-Defer-Length": "2"}, 400),
    ("a length that is none", {"Upload-Length": "-9"}, 400),
    ("a length in words", {"Upload-Length": "1e3"}, 400),
    ("nothing", {"Upload-Length": "0"}, 400),
    ("too much", {"Upload-Length": str((50 << 30) + 1)}, 413),
    ("far too much", {"Upload-Length": "9" * 18}, 413),
    ("metadata that is no base64", {"Upload-Length": "9", "Upload-Metadata": "title %%%"}, 400),
    ("metadata that is no UTF-8", {"Upload-Length": "9", "Upload-Metadata": "title /w=="}, 400),
    ("metadata twice", {"Upload-Length": "9", "Upload-Metadata": "title YQ==,title YQ=="}, 400),
    ("an unknown key", {"Upload-Length": "9", "Upload-Metadata": metadata(poem="x")}, 422),
    ("a long title", {"Upload-Length": "9", "Upload-Metadata": metadata(title="x" * 256)}, 422),
    ("tags in no JSON", {"Upload-Length": "9", "Upload-Metadata": metadata(tags="a,b")}, 422),
    ("no such category", {"Upload-Length": "9", "Upload-Metadata": metadata(category="99")}, 422),
    ("no such tag", {"Upload-Length": "9", "Upload-Metadata": metadata(tags='[{"id":9}]')}, 422),
    ("no such land", {"Upload-Length": "9", "Upload-Metadata": metadata(countries="[9999]")}, 422),
)  # fmt: skip


@pytest.mark.parametrize(("case", "headers", "status"), CREATIONS, ids=[c[0] for c in CREATIONS])
async def test_a_refused_creation_leaves_nothing(
    api_service: ApiService, objects: DiskObjects, case: str, headers: dict[str, str], status: int
) -> None:
    answer = await api_service.client.post(UPLOADS, headers={**api_service.owner, **TUS, **headers})
    assert answer.status_code == status, (case, answer.text)
    assert set(answer.json()) <= {"message", "errors"}
    assert ("errors" in answer.json()) == (status == 422)
    await nothing_is_left(api_service, objects)


async def test_a_body_of_another_type_is_no_creation(
    api_service: ApiService, objects: DiskObjects
) -> None:
    headers = {**api_service.owner, **TUS, "Upload-Length": "9", "Content-Type": "video/mp4"}
    assert (
        await api_service.client.post(UPLOADS, headers=headers, content=b"x")
    ).status_code == 415
    await nothing_is_left(api_service, objects)
