"""The operations on one upload that uploads with tokens and with links share."""

from tests.api.uploads.test_resumable import head
from tests.support.api.application import ApiService
from tests.support.api.tus_client import OFFSETS, TUS, create, send
from tests.support.api.upload_clips import clip

PATCHES: tuple[tuple[str, dict[str, str], bytes, int], ...] = (
    ("no version", {"Tus-Resumable": ""}, b"x", 412),
    ("another type", {"Content-Type": "video/mp4"}, b"x", 415),
    ("no offset", {"Upload-Offset": ""}, b"x", 400),
    ("an offset in words", {"Upload-Offset": "ten"}, b"x", 400),
    ("an offset before", {"Upload-Offset": "9"}, b"x", 409),
    ("an offset behind", {"Upload-Offset": "11"}, b"x", 409),
    ("more than was announced", {}, b"x" * 91, 413),
    ("another length", {"Upload-Length": "99"}, b"x", 400),
    ("another algorithm", {"Upload-Checksum": "crc32 AAAA"}, b"x", 400),
    ("a checksum in words", {"Upload-Checksum": "sha1 !"}, b"x", 400),
    ("a short checksum", {"Upload-Checksum": "sha1 AAAA"}, b"x", 400),
)


async def test_a_refused_piece_does_not_change_the_upload(api_service: ApiService) -> None:
    path = await create(api_service, 100)
    assert (await send(api_service, path, 0, b"0123456789")).status_code == 204
    for case, headers, data, status in PATCHES:
        answer = await send(api_service, path, 10, data, headers)
        assert answer.status_code == status, (case, answer.text)
        assert (await head(api_service, path)).headers["upload-offset"] == "10", case
    answer = await send(api_service, path, 9, b"x")
    assert answer.headers["upload-offset"] == "10"


async def test_patch_and_delete_may_be_sent_as_post(api_service: ApiService) -> None:
    path = await create(api_service)
    headers = {**api_service.owner, **TUS, **OFFSETS, "Upload-Offset": "0"}
    patched = await api_service.client.post(
        path, headers={**headers, "X-HTTP-Method-Override": "PATCH"}, content=clip()[:10]
    )
    assert (patched.status_code, patched.headers["upload-offset"]) == (204, "10")
    assert (await api_service.client.post(path, headers=headers, content=b"x")).status_code == 405
    ended = await api_service.client.post(
        path, headers={**headers, "X-HTTP-Method-Override": "DELETE"}
    )
    assert ended.status_code == 204
    assert (await head(api_service, path)).status_code == 404
