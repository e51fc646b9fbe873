"""Uploads in one request: allowed forms, refused ones, and that refusals leave nothing behind."""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from api.app import create_app
from headend.roles.upload_intake import create_intake, uploaded_posters
from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import TRANSCODE
from storage.objects.disk import DiskObjects
from tests.support.api.application import (
    ADDRESSES,
    BROADCASTER_KEY,
    NOW_US,
    ApiService,
    Json,
)
from tests.support.api.in_loop_client import client_of
from tests.support.api.upload_clips import VIDEOS, clip, picture, upload
from tests.support.shared_engines import ON_SHARED
from tests.support.storage.undeletable_disk import UndeletableDisk

BOUNDARY = "-->boundary<--"
FORM = {"Content-Type": f'multipart/form-data; boundary="{BOUNDARY}"'}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'


def part(disposition: str, data: bytes, *headers: str) -> bytes:
    lines = [f"--{BOUNDARY}", f"Content-Disposition: form-data; {disposition}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def video(
    disposition: str = 'name="video"; filename="clip.mp4"', data: bytes | None = None
) -> bytes:
    return part(disposition, clip() if data is None else data)


async def send(
    api_service: ApiService, content: bytes, headers: dict[str, str] = FORM, path: str = VIDEOS
) -> httpx.Response:
    method = "PUT" if path.endswith("/poster") else "POST"
    return await api_service.client.request(
        method, path, content=content, headers={**api_service.owner, **headers}
    )


async def remove_for_good(api_service: ApiService) -> None:
    """Remove the one record that is in the trash of the first project."""
    (item,) = (await api_service.listed(path="/api/projects/1/trash"))["data"]
    path = f"/api/trash/{item['id']}"
    answer = await api_service.client.delete(path, headers=api_service.owner)
    assert answer.status_code == 204


async def nothing_is_left(api_service: ApiService, objects: DiskObjects) -> None:
    """Check that there is no record, no job and no file."""
    answer = await api_service.client.get(VIDEOS, headers=api_service.owner)
    assert answer.json()["meta"]["total"] == 0
    assert answer.json()["data"] == []
    assert await api_service.catalog.jobs.lease("nobody", 1 << 60, TRANSCODE) is None
    assert await stored_addresses(objects) == []


async def stored_addresses(objects: DiskObjects) -> list[str]:
    """Return the addresses of all stored files of videos, including incomplete ones."""
    if ON_SHARED:
        roots = ("sources", "uploads", "videos")
        return [name for root in roots for name in await objects.addresses(root)]
    return sorted(path.relative_to(objects.root).as_posix() for path in files_of(objects))


def files_of(objects: DiskObjects) -> list[Path]:
    return [path for path in objects.root.rglob("*") if path.is_file() and path.name != "reserve"]


REFUSED = (
    ("no video", form(part('name="title"', b"x")), 422, {"video"}),
    ("nothing at all", form(), 422, {"video"}),
    ("a video that is a text", form(part('name="video"', b"x")), 422, {"video"}),
    ("no file chosen", form(video('name="video"; filename=""', b"")), 422, {"video"}),
    ("an empty file", form(video(data=b"")), 422, {"video"}),
    ("a text named .mp4", form(video(data=b"Dear diary, " * 100)), 422, {"video"}),
    ("a page named .mp4", form(video(data=b"<html><script>alert(1)</script>")), 422, {"video"}),
    (
        "a playlist named .mp4",
        form(video(data=b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")),
        422,
        {"video"},
    ),
    ("an SVG named .mp4", form(video(data=SVG)), 422, {"video"}),
    ("an unknown text", form(part('name="tags"', b"x"), video()), 422, {"tags"}),
    ("an unknown file", form(part('name="f"; filename="f"', b"x"), video()), 422, {"f"}),
    ("a part without a name", form(part("filename=x", b"x"), video()), 422, {""}),
    ("two videos", form(video(), video()), 422, {"video"}),
    ("two titles", form(part('name="title"', b"a"), part('name="title"', b"b")), 422, {"title"}),
    ("a long title", form(part('name="title"', b"x" * 256), video()), 422, {"title"}),
    ("a title that is no UTF-8", form(part('name="title"', b"\xff"), video()), 422, {"title"}),
    ("a title with a NUL", form(part('name="title"', b"a\0b"), video()), 422, {"title"}),
    ("a late wrong title", form(video(), part('name="title"', b"a\0b")), 422, {"title"}),
    (
        "a long description",
        form(part('name="description"', b"x" * 10_001), video()),
        422,
        {"description"},
    ),
    (
        "texts of more than a megabyte",
        form(part('name="description"', b"x" * ((1 << 20) + 1)), video()),
        413,
        set[str](),
    ),
    (
        "a poster that is an SVG",
        form(video(), part('name="poster"; filename="p.png"', SVG, "Content-Type: image/png")),
        422,
        {"poster"},
    ),
    ("a poster that is a film", form(part('name="poster"; filename="p.png"', clip()), video()), 422,
     {"poster"}),
    ("a poster that is a text", form(part('name="poster"', b"x"), video()), 422, {"poster"}),
    ("a form that breaks off", form(video())[:-20], 400, set[str]()),
    ("a form without its end", video(), 400, set[str]()),
    ("no form", b"hello", 400, set[str]()),
    ("no body", b"", 400, set[str]()),
    ("a part without a disposition", f"--{BOUNDARY}\r\n\r\nx\r\n".encode() + form(), 400,
     set[str]()),
    ("too many parts", form(*[part(f'name="{n}"', b"") for n in range(99)]), 422, {"0"}),
    ("too many headers", form(part('name="title"', b"x", *["X-A: b"] * 99)), 400, set[str]()),
)  # fmt: skip


async def test_each_form_that_is_wrong_is_refused_and_leaves_nothing(
    api_service: ApiService, objects: DiskObjects
) -> None:
    for name, content, status, fields in REFUSED:
        answer = await send(api_service, content)
        assert answer.status_code == status, (name, answer.text)
        assert set(answer.json().get("errors", {})) == fields, (name, answer.text)
        await nothing_is_left(api_service, objects)


async def test_a_file_that_is_no_media_is_refused_with_the_reason(api_service: ApiService) -> None:
    answer = await send(api_service, form(video(data=b"Dear diary")))
    (reason,) = answer.json()["errors"]["video"]
    assert "cannot be read" in reason


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        pytest.param("application/json", 415, id="JSON"),
        pytest.param("application/x-www-form-urlencoded", 415, id="a form without files"),
        pytest.param("video/mp4", 415, id="the file itself"),
        pytest.param("", 415, id="none"),
        pytest.param("multipart/mixed; boundary=x", 415, id="another multipart"),
        pytest.param("multipart/form-data", 400, id="no boundary"),
        pytest.param("multipart/form-data; boundary=", 400, id="an empty boundary"),
    ],
)
async def test_a_body_of_another_type_is_refused(
    api_service: ApiService, objects: DiskObjects, content_type: str, status: int
) -> None:
    answer = await send(api_service, form(video()), {"Content-Type": content_type})
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"message"}
    await nothing_is_left(api_service, objects)


@pytest.mark.parametrize(
    ("disposition", "title", "slug"),
    [
        pytest.param('filename="Știri.de.azi.MP4"', "Știri.de.azi", "stiri-de-azi", id="unicode"),
        pytest.param(
            f"filename=\"x.mp4\"; filename*=UTF-8''{quote('Žluťoučký kůň.mov')}",
            "Žluťoučký kůň",
            "zlutoucky-kun",
            id="extended beside plain",
        ),
        pytest.param("filename*=utf-8'en'%F0%9F%8E%AC.mkv", "🎬", "video", id="extended alone"),
        pytest.param(r'filename="../../etc/pass wd.mp4"', "pass wd", "pass-wd", id="a path"),
        pytest.param(r'filename="C:\\films\\One.avi"', "One", "one", id="a Windows path"),
        pytest.param(
            'filename="say %22hi%22.mp4"', 'say "hi"', "say-hi", id="quotes as browsers do"
        ),
        pytest.param(r'filename="say \"hi\".mp4"', 'say "hi"', "say-hi", id="quotes as others do"),
        pytest.param("filename=plain.webm", "plain", "plain", id="no quotes"),
        pytest.param('filename=".mp4"', "video", "video", id="an extension alone"),
        pytest.param('filename="..."', "...", "video", id="dots alone"),
        pytest.param('filename="a%0D%0Ab.mp4"', "a b", "a-b", id="a line break"),
        pytest.param('filename="日本語.mp4"', "日本語", "video", id="nothing in ASCII"),
        pytest.param(
            "filename=\"fake; filename*=UTF-8''x.mp4\"",
            "fake; filename*=UTF-8''x",
            "fake-filename-utf-8-x",
            id="a name that looks like a parameter",
        ),
        pytest.param(f'filename="{"x" * 400}.mp4"', "x" * 255, "x" * 255, id="a long one"),
    ],
)
async def test_a_file_names_its_video(
    api_service: ApiService, disposition: str, title: str, slug: str
) -> None:
    answer = await send(api_service, form(video(f'name="video"; {disposition}')))
    assert answer.status_code == 201, answer.text
    record: Json = answer.json()["video"]
    assert (record["title"], record["name"]) == (title, slug)


async def test_texts_are_kept_as_they_came(api_service: ApiService) -> None:
    title, description = "  <b>Über</b> & 🎬 “so”  ", "One\r\n\tTwo\n\n🎬"
    record = (await upload(api_service, texts={"title": title, "description": description}))[
        "video"
    ]
    assert record["title"] == title.strip()
    assert record["description"] == description
    blank = (await upload(api_service, texts={"title": "  "}))["video"]
    assert blank["title"] == "clip"


async def test_the_file_is_stored_outside_the_public_folders(
    api_service: ApiService, objects: DiskObjects
) -> None:
    record = (await upload(api_service))["video"]
    assert await stored_addresses(objects) == [f"sources/{record['hash']}/1"]
    assert await objects.get(f"sources/{record['hash']}/1") == clip()
    assert record["size"] == len(clip())


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
async def test_a_poster_comes_in_the_sizes_of_its_video(
    api_service: ApiService, objects: DiskObjects, kind: str
) -> None:
    files: Any = {"poster": (f"p.{kind}", picture(kind, "1000x1000"), "application/octet-stream")}
    body = await upload(api_service, data=clip("960x540"), files=files)
    record: Json = body["video"]
    assert [rung["name"] for rung in record["resolutions"]] == ["360p", "480p", "720p"]
    assert set(record["image_urls"]) == {"360p", "480p", "720p"}
    name = record["hash"]
    assert record["image_urls"]["720p"] == f"https://live.example/videos/{name}/poster/720p.jpg"
    assert record["image_update_at"] is not None
    posters = [PurePath(each) for each in await objects.addresses(f"videos/{name}")]
    assert len({path.parent for path in posters}) == 1
    sizes = {path.stem: jpeg_size(await objects.get(path.as_posix())) for path in posters}
    assert sizes == {"360p": (360, 360), "480p": (480, 480), "720p": (540, 540)}


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Return the width and height in a JPEG's frame header."""
    assert data[:3] == b"\xff\xd8\xff"
    offset = 2
    while data[offset + 1] not in (0xC0, 0xC1, 0xC2):
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    height, width = data[offset + 5 : offset + 7], data[offset + 7 : offset + 9]
    return int.from_bytes(width, "big"), int.from_bytes(height, "big")


async def test_a_poster_sent_later_takes_the_place_of_the_one_before(
    api_service: ApiService, objects: DiskObjects
) -> None:
    files: Any = {"poster": ("p.png", picture(), "image/png")}
    record: Json = (await upload(api_service, files=files))["video"]
    before = await stored_addresses(objects)
    path = f"/api/videos/{record['id']}/poster"
    answer = await send(
        api_service, form(part('name="poster"; filename="x"', picture("jpg"))), path=path
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["message"] == "Video updated."
    assert answer.json()["video"]["image_urls"] == record["image_urls"]
    after = await stored_addresses(objects)
    assert len(after) == len(before)
    assert len(set(after) & set(before)) == 1  # the video's own file
    for content, status in (
        (form(), 422),
        (form(part('name="poster"; filename=""', b"")), 422),
        (form(part('name="poster"; filename="x"', SVG)), 422),
        (form(part('name="poster"; filename="x"', b"\x89PNG\r\n\x1a\n" + b"x" * 99)), 422),
        (form(part('name="title"', b"x")), 422),
        (form(part('name="poster"; filename="x"', b"x" * (10 * 1024 * 1024 + 1))), 413),
    ):
        refused = await send(api_service, content, path=path)
        assert refused.status_code == status, refused.text
        assert await stored_addresses(objects) == after
    missing = await send(api_service, form(), path="/api/videos/99/poster")
    assert missing.status_code == 404


async def test_old_posters_that_cannot_be_deleted_do_not_fail_the_new_ones(
    api_service: ApiService, tmp_path: Path
) -> None:
    video: Json = (await upload(api_service))["video"]
    path, content = (
        f"/api/videos/{video['id']}/poster",
        form(part('name="poster"; filename="x"', picture())),
    )
    deleted = False

    async def posters(file: Path, width: int, height: int, /) -> Mapping[str, bytes]:
        if deleted:
            await api_service.catalog.videos.remove(video["id"], Change(NOW_US))
        return await uploaded_posters(file, width, height)

    with UndeletableDisk(tmp_path / "stuck", "poster", video["hash"]) as objects:
        intake = create_intake(objects, min_free_bytes=0)
        app = create_app(
            catalog=api_service.catalog,
            addresses=ADDRESSES,
            broadcaster_key=BROADCASTER_KEY,
            intake=msgspec.structs.replace(intake, posters=posters),
            clock_us=lambda: NOW_US,
        )
        async with client_of(app) as client:
            service = msgspec.structs.replace(api_service, client=client)
            for _ in range(2):
                answer = await send(service, content, path=path)
                assert answer.status_code == 200, answer.text
            deleted = True
            assert (await send(service, content, path=path)).status_code == 404
