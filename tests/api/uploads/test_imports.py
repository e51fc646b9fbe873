"""Imports of videos by URL: the new record, refusals, and the secrecy of the URL."""

import logging

import pytest

from storage.catalog.records.common import Change
from storage.catalog.videos.jobs import IMPORT
from tests.support.api.application import ApiService, Json
from tests.support.api.contract_shapes import UPLOAD_VIDEO, faults
from tests.support.api.upload_clips import upload

PATH = "/api/projects/1/imports"
SECRET = "hush-hush"
URL = f"https://media.example/{SECRET}-folder/Holiday%20film.mp4?X-Signature={SECRET}"


async def request_import(api_service: ApiService, **body: object) -> Json:
    answer = await api_service.client.post(
        PATH, json={"url": URL, **body}, headers=api_service.owner
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_an_import_answers_as_an_upload_does(api_service: ApiService) -> None:
    body = await request_import(api_service)
    # The only difference to the answer of an upload.
    assert faults(body, UPLOAD_VIDEO) == ["$.video.uploaded_at is no timestamp: None"]
    assert set(body) == set(await upload(api_service))
    video = body["video"]
    assert (video["uploading"], video["uploaded_at"], video["size"]) == (True, None, 0)
    assert video["title"] == "Holiday film"
    status = await api_service.client.get(
        f"/api/videos/{video['id']}/status", headers=api_service.owner
    )
    assert status.json()["data"]["state"] == "uploading"
    listed = await api_service.client.get(
        "/api/projects/1/videos?type=inprogress", headers=api_service.owner
    )
    assert video["id"] in [each["id"] for each in listed.json()["data"]]


async def test_an_import_takes_the_details_of_an_upload(api_service: ApiService) -> None:
    body = await request_import(
        api_service,
        title="A film",
        description="of mine",
        countries=["RO", 276],
        tags=[{"name": "x"}],
    )
    video = body["video"]
    assert (video["title"], video["description"]) == ("A film", "of mine")
    assert [country["code"] for country in video["countries"]] == ["RO", "DE"]
    assert [tag["name"] for tag in video["tags"]] == ["x"]


async def test_an_address_without_a_files_name_gives_no_title_away(api_service: ApiService) -> None:
    body = await request_import(api_service, url=f"https://media.example/{SECRET}")
    assert (body["video"]["title"], body["video"]["name"]) == ("video", "video")


async def test_the_address_of_an_import_is_never_shown(
    api_service: ApiService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = await request_import(api_service)
    number = body["video"]["id"]
    texts = [str(body), caplog.text]
    for path in (
        f"/api/videos/{number}",
        f"/api/videos/{number}/status",
        "/api/projects/1/videos",
        "/api/projects/1/events",
    ):
        answer = await api_service.client.get(path, headers=api_service.owner)
        assert answer.status_code == 200
        texts.append(answer.text)
    assert "media.example" in texts[-1]  # the host alone, in the event
    assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://media.example/a", "The address must begin with http:// or https://."),
        ("file:///etc/passwd", "The address must begin with http:// or https://."),
        ("https://me:pass@media.example/a", "a user name or a password"),
        ("https://media.example:22/a", "Port 22"),
        ("http://127.0.0.1/a", "The address leads to a private network."),
        ("http://[::1]/a", "The address leads to a private network."),
        ("http://169.254.169.254/latest/meta-data", "The address leads to a private network."),
        ("http://[::ffff:10.0.0.1]/", "The address leads to a private network."),
        ("", "The address must begin with http:// or https://."),
        (7, "Expected `str`"),
        (None, "Expected `str`"),
    ],
)
async def test_what_cannot_be_fetched_is_refused(
    api_service: ApiService, url: object, reason: str
) -> None:
    answer = await api_service.client.post(PATH, json={"url": url}, headers=api_service.owner)
    assert answer.status_code == 422
    (text,) = answer.json()["errors"]["url"]
    assert reason in text
    listed = await api_service.client.get("/api/projects/1/videos", headers=api_service.owner)
    assert listed.json()["meta"]["total"] == 0


async def test_a_body_is_checked_key_by_key(api_service: ApiService) -> None:
    for body, field in (
        ({}, "url"),
        ({"url": URL, "uri": URL}, "uri"),
        ({"url": URL, "title": "x" * 256}, "title"),
        ({"url": URL, "category": 99}, "category"),
        ({"url": URL, "tags": [{"id": 99}]}, "tags"),
        ({"url": URL, "countries": ["XX"]}, "countries"),
    ):
        answer = await api_service.client.post(PATH, json=body, headers=api_service.owner)
        assert answer.status_code == 422, body
        assert set(answer.json()["errors"]) == {field}
    listed = await api_service.client.get("/api/projects/1/videos", headers=api_service.owner)
    assert listed.json()["meta"]["total"] == 0


async def test_importing_requires_a_token_that_may_write(api_service: ApiService) -> None:
    body = {"url": URL}
    assert (await api_service.client.post(PATH, json=body)).status_code == 401
    reader = await api_service.headers_of("reader", 1, write=False)
    assert (await api_service.client.post(PATH, json=body, headers=reader)).status_code == 403
    other = await api_service.catalog.projects.add("Other", Change(1))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    assert (await api_service.client.post(PATH, json=body, headers=stranger)).status_code == 404


async def test_an_import_that_is_deleted_is_gone(api_service: ApiService) -> None:
    number = (await request_import(api_service))["video"]["id"]
    deleted = await api_service.client.delete(f"/api/videos/{number}", headers=api_service.owner)
    assert deleted.status_code == 204
    assert await api_service.catalog.jobs.lease("worker", 2**52, IMPORT) is None
