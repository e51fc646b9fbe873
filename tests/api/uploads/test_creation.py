"""Which creations of uploads are refused, and which succeed without the bytes sent with them."""

import base64
import hashlib

import msgspec
import pytest

from api.app import create_app
from api.intake.concurrency_limit import ConcurrencyLimit
from headend.roles.upload_intake import create_intake
from storage.catalog.uploads import repository
from storage.objects.disk import DiskObjects
from tests.api.uploads.test_link_uploads import add_link
from tests.api.uploads.test_single_request import nothing_is_left
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.in_loop_client import client_of
from tests.support.api.tus_client import OFFSETS, TUS, UPLOADS, metadata, path_of
from tests.support.api.upload_clips import clip

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


async def test_a_link_is_not_used_up_by_bytes_that_find_no_free_slot(
    api_service: ApiService, objects: DiskObjects
) -> None:
    data, link = clip(), await add_link(api_service)
    intake = create_intake(objects, min_free_bytes=0)
    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key=BROADCASTER_KEY,
        intake=msgspec.structs.replace(intake, gate=ConcurrencyLimit(0)),
        clock_us=lambda: NOW_US,
    )
    first = {**TUS, **OFFSETS, "Upload-Length": str(len(data))}
    async with client_of(app) as busy:
        created = await busy.post(link, headers=first, content=data)
    assert created.status_code == 201, created.text
    assert (created.headers["upload-offset"], created.headers["connection"]) == ("0", "close")
    rest = {**TUS, **OFFSETS, "Upload-Offset": "0"}
    answer = await api_service.client.patch(path_of(created), headers=rest, content=data)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(len(data)))


async def test_bytes_with_a_wrong_checksum_are_sent_again_to_the_created_upload(
    api_service: ApiService,
) -> None:
    data = clip()
    digest = base64.b64encode(hashlib.sha1(b"other", usedforsecurity=False).digest()).decode()
    headers = {
        **api_service.owner,
        **TUS,
        **OFFSETS,
        "Upload-Length": str(len(data)),
        "Upload-Checksum": f"sha1 {digest}",
    }
    created = await api_service.client.post(UPLOADS, headers=headers, content=data)
    assert (created.status_code, created.headers["upload-offset"]) == (201, "0"), created.text
    state = await api_service.client.head(path_of(created), headers={**api_service.owner, **TUS})
    assert (state.status_code, state.headers["upload-offset"]) == (200, "0")


async def test_bytes_that_are_no_video_are_refused_with_their_creation(
    api_service: ApiService, objects: DiskObjects
) -> None:
    headers = {**api_service.owner, **TUS, **OFFSETS, "Upload-Length": "4"}
    answer = await api_service.client.post(UPLOADS, headers=headers, content=b"text")
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"video"})
    await nothing_is_left(api_service, objects)


async def test_too_many_uploads_of_a_project_are_refused_for_a_while(
    api_service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MAX_OPEN_UPLOADS", 1)
    headers = {**api_service.owner, **TUS, "Upload-Length": "9"}
    assert (await api_service.client.post(UPLOADS, headers=headers)).status_code == 201
    refused = await api_service.client.post(UPLOADS, headers=headers)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
