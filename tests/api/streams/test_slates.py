"""The slate's picture, for a stream and for a whole project."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from httpx import Response

from api.app import create_app
from headend.duties.media_remover import StoredMedia
from headend.duties.project_remover import remove_projects
from headend.roles.upload_intake import create_intake
from media.no_op import do_nothing_async
from storage.catalog.records.common import Change
from storage.objects.disk import DiskObjects
from tests.api.streams.test_settings import SETTINGS
from tests.support.api import contract_shapes
from tests.support.api.application import ADDRESSES, ApiService, Json
from tests.support.api.in_loop_client import client_of
from tests.support.api.upload_clips import clip, picture

CHANGED = {"message": contract_shapes.STRING, "settings": SETTINGS}


async def path_of(api_service: ApiService, kind: str) -> str:
    stream = await api_service.add()
    return "/api/projects/1" if kind == "project" else f"/api/streams/{stream['id']}"


async def put(api_service: ApiService, path: str, data: bytes, name: str = "p.png") -> Response:
    files = {"picture": (name, data)}
    return await api_service.client.put(f"{path}/slate", files=files, headers=api_service.owner)


async def slate_url(api_service: ApiService, path: str) -> str | None:
    answer = await api_service.client.get(f"{path}/settings", headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    assert contract_shapes.faults(body, {"data": SETTINGS}) == []
    url: str | None = body["data"]["slate"]["picture"]
    return url


async def load(
    api_service: ApiService, url: str, **more: Any
) -> Response:  # Any: as httpx takes it
    """Fetch an address as a browser does, that is without a token."""
    return await api_service.client.get(url.removeprefix("https://live.example"), **more)


async def stored_slates(objects: DiskObjects) -> list[str]:
    return await objects.addresses("slates")


both = pytest.mark.parametrize("kind", ["stream", "project"])


@both
async def test_a_picture_is_shown_until_it_is_deleted(
    api_service: ApiService, objects: DiskObjects, kind: str
) -> None:
    path = await path_of(api_service, kind)
    assert await slate_url(api_service, path) is None
    answer = await put(api_service, path, picture("webp", "640x360"))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert contract_shapes.faults(body, CHANGED) == []
    assert body["message"] == "Slate updated."
    url = body["settings"]["slate"]["picture"]
    assert await slate_url(api_service, path) == url
    image = await load(api_service, url)
    assert image.status_code == 200
    assert image.headers["content-type"] == "image/jpeg"
    assert image.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert image.headers["access-control-allow-origin"] == "*"
    assert image.content[:3] == b"\xff\xd8\xff"
    unchanged = await load(api_service, url, headers={"If-None-Match": image.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    deleted = await api_service.client.delete(f"{path}/slate", headers=api_service.owner)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert await slate_url(api_service, path) is None
    assert await stored_slates(objects) == []
    missing = await load(api_service, url)
    assert (missing.status_code, missing.headers["cache-control"]) == (404, "no-store")
    # Deleting a picture that does not exist succeeds.
    deleted = await api_service.client.delete(f"{path}/slate", headers=api_service.owner)
    assert deleted.status_code == 204


async def test_another_picture_has_another_address_and_the_old_one_goes(
    api_service: ApiService, objects: DiskObjects
) -> None:
    path = await path_of(api_service, "stream")
    urls: list[str] = []
    for size in ("640x360", "320x180"):
        answer = await put(api_service, path, picture("png", size))
        assert answer.status_code == 200, answer.text
        urls.append(answer.json()["settings"]["slate"]["picture"])
    assert len(set(urls)) == 2
    assert [(await load(api_service, url)).status_code for url in urls] == [404, 200]
    assert len(await stored_slates(objects)) == 1


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("3840x2160", (1920, 1080)),
        ("640x360", (640, 360)),
        ("1000x3000", (360, 1080)),
        ("1921x601", (1920, 600)),
    ],
)
async def test_a_picture_fits_into_1920_x_1080_in_its_own_shape(
    api_service: ApiService, size: str, expected: tuple[int, int]
) -> None:
    path = await path_of(api_service, "stream")
    answer = await put(api_service, path, picture("png", size))
    assert answer.status_code == 200, answer.text
    image = await load(api_service, answer.json()["settings"]["slate"]["picture"])
    assert size_of(image.content) == expected


def size_of(jpeg: bytes) -> tuple[int, int]:
    """Return a JPEG's width and height, from its frame header (ITU-T T.81, B.2.2)."""
    at = 2
    while jpeg[at] == 0xFF and not 0xC0 <= jpeg[at + 1] <= 0xC2:
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4])
    return int.from_bytes(jpeg[at + 7 : at + 9]), int.from_bytes(jpeg[at + 5 : at + 7])


HOSTILE: Final[dict[str, Callable[[], bytes]]] = {
    "nothing": lambda: b"",
    "a text": lambda: b"no picture at all",
    "a playlist": lambda: b"#EXTM3U\nfile:///etc/passwd\n",
    "an SVG": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    "a GIF": lambda: b"GIF89a" + bytes(100),
    "a film": clip,
    "the head of a PNG": lambda: picture("png")[:60],
    "the head of a JPEG": lambda: picture("jpg")[:60],
    "a picture of next to nothing": lambda: picture("png", "8x8"),
}


@both
async def test_hostile_pictures_are_refused_and_the_old_one_stays(
    api_service: ApiService, objects: DiskObjects, kind: str
) -> None:
    path = await path_of(api_service, kind)
    url = (await put(api_service, path, picture())).json()["settings"]["slate"]["picture"]
    before = await stored_slates(objects)
    for name, data in HOSTILE.items():
        answer = await put(api_service, path, data())
        assert answer.status_code == 422, f"{name}: {answer.text}"
        assert set(answer.json()["errors"]) == {"picture"}
        assert contract_shapes.refusal_faults(answer.json()) == []
    assert await slate_url(api_service, path) == url
    assert await stored_slates(objects) == before


async def test_forms_without_the_picture_and_with_more_are_refused(api_service: ApiService) -> None:
    path = f"{await path_of(api_service, 'stream')}/slate"
    data = picture()
    for files, field in (
        ({"poster": ("p.png", data)}, "poster"),
        ({"picture": ("p.png", data), "title": (None, b"x")}, "title"),
        ({"picture": (None, b"text")}, "picture"),
    ):
        form: Any = files
        answer = await api_service.client.put(path, files=form, headers=api_service.owner)
        assert answer.status_code == 422, answer.text
        assert set(answer.json()["errors"]) == {field}
    answer = await api_service.client.put(path, json={"picture": "x"}, headers=api_service.owner)
    assert answer.status_code == 415
    large = {"picture": ("p.png", bytes(10 * 1024 * 1024 + 1))}
    answer = await api_service.client.put(path, files=large, headers=api_service.owner)
    assert answer.status_code == 413


async def test_a_streams_settings_show_its_own_picture_alone(api_service: ApiService) -> None:
    path = await path_of(api_service, "stream")
    answer = await put(api_service, "/api/projects/1", picture())
    assert answer.status_code == 200
    assert await slate_url(api_service, path) is None
    stream = await api_service.catalog.streams.find(int(path.rpartition("/")[2]))
    assert stream is not None
    ingest = await api_service.catalog.live_state.find_ingest(stream.key)
    assert ingest is not None
    assert ingest.slate is not None
    assert ingest.slate.startswith(f"slates/p-{api_service.key}/")


async def remove_for_good(api_service: ApiService, trash: str) -> None:
    """Remove the one thing in a trash for good."""
    (item,) = (await api_service.listed(path=trash))["data"]
    path = f"/api/trash/{item['id']}"
    assert (await api_service.client.delete(path, headers=api_service.owner)).status_code == 204


async def test_a_deleted_stream_or_project_is_deleted_with_its_pictures(
    api_service: ApiService, objects: DiskObjects
) -> None:
    answer = await api_service.client.post(
        "/api/projects", json={"name": "Doomed"}, headers=api_service.owner
    )
    project = answer.json()["project"]["id"]
    path = f"/api/projects/{project}"
    streams = [await api_service.add(path=f"{path}/streams") for _ in range(2)]
    for owner in (path, *(f"/api/streams/{each['id']}" for each in streams)):
        assert (await put(api_service, owner, picture())).status_code == 200
    assert len(await stored_slates(objects)) == 3
    # A stream that was live also has posters.
    for stream in streams:
        await objects.put(f"live/{stream['hash']}/poster/360p.jpg", b"poster")
    answer = await api_service.client.delete(
        f"/api/streams/{streams[0]['id']}", headers=api_service.owner
    )
    assert answer.status_code == 204
    assert len(await stored_slates(objects)) == 3, "it can be restored"
    await remove_for_good(api_service, f"{path}/trash")
    assert len(await stored_slates(objects)) == 2
    assert await objects.addresses("live") == [f"live/{streams[1]['hash']}/poster/360p.jpg"]
    assert (await api_service.client.delete(path, headers=api_service.owner)).status_code == 204
    await remove_for_good(api_service, "/api/trash")
    await remove_projects(
        api_service.catalog.removed_projects, StoredMedia(objects, do_nothing_async)
    )
    assert await stored_slates(objects) == await objects.addresses("live") == []


async def test_a_picture_of_a_project_deleted_meanwhile_is_not_stored(
    api_service: ApiService, objects: DiskObjects
) -> None:
    project = await api_service.catalog.projects.add("Going", Change(1))
    real = create_intake(objects, min_free_bytes=0)

    async def then_delete(file: Path, /) -> bytes:
        # The project is deleted while its picture is probed.
        assert await api_service.catalog.projects.remove(project.id, Change(1))
        return await real.slate(file)

    intake = msgspec.structs.replace(real, slate=then_delete)
    app = create_app(
        catalog=api_service.catalog, addresses=ADDRESSES, broadcaster_key="k", intake=intake
    )
    async with client_of(app) as client:
        answer = await client.put(
            f"/api/projects/{project.id}/slate",
            files={"picture": ("p.png", picture())},
            headers=api_service.owner,
        )
    assert answer.status_code == 404, answer.text
    assert await stored_slates(objects) == []


@pytest.mark.parametrize(
    "path",
    [
        "/slates", "/slates/", "/slates/s-Ab3dEf6hIj9l", "/slates/s-Ab3dEf6hIj9l/",
        "/slates/s-Ab3dEf6hIj9l/1.jpg", "/slates/s-Ab3dEf6hIj9l/Ab3dEf6hIj9l.jpg",
        "/slates/x/1.jpg",
        "/slates/s-Ab3dEf6hIj9l/1.png", "/slates/../live/x", "/slates/%2e%2e/headend.db",
        "/slates/s-Ab3dEf6hIj9l/..%2f..%2fx.jpg",
    ],
)  # fmt: skip
async def test_other_addresses_below_slates_are_not_found(
    api_service: ApiService, path: str
) -> None:
    answer = await api_service.client.get(path)
    assert answer.status_code == 404


async def test_only_reading_is_allowed_there(api_service: ApiService) -> None:
    answer = await api_service.client.post("/slates/s-Ab3dEf6hIj9l/1.jpg")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
