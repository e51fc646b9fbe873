"""A video in one form, and that a failure leaves nothing of it."""

from pathlib import Path
from typing import Any

import httpx

from api.app import create_app
from api.intake.upload_intake import UploadIntake
from headend.roles.upload_intake import create_intake
from storage.catalog.records.common import Change
from storage.file_intake import FileFacts
from tests.api.uploads.test_single_request import form, video
from tests.api.uploads.test_single_request_over_http import open_service
from tests.support.api.application import ADDRESSES, NOW_US
from tests.support.plain_http import PLAIN


async def test_a_probe_that_takes_too_long_leaves_sizes_for_later(tmp_path: Path) -> None:
    async def slow(_: Path, /) -> FileFacts | None:
        return None

    async with open_service(tmp_path, probe=slow) as service:
        async with httpx.AsyncClient(verify=PLAIN, timeout=60) as client:
            answer = await client.post(service.url, content=form(video()), headers=service.headers)
        record = answer.json()["video"]
        assert (record["length"], record["iso8601_duration"]) == (0, "PT0S")
        assert (record["width"], record["height"], record["resolutions"]) == (0, 0, [])


async def test_an_upload_to_a_project_deleted_meanwhile_leaves_no_file(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        project = await service.catalog.projects.add("going", Change(NOW_US))

        async def then_delete(_: Path, /) -> FileFacts | None:
            # The project is deleted while its video is probed.
            assert await service.catalog.projects.remove(project.id, Change(NOW_US))
            return FileFacts(length_us=1, width=640, height=360)

        intake = UploadIntake(
            objects=service.objects,
            probe=then_delete,
            posters=create_intake(service.objects, 0).posters,
            slate=create_intake(service.objects, 0).slate,
            least_free=0,
        )
        app = create_app(
            catalog=service.catalog, addresses=ADDRESSES, broadcaster_key="k", intake=intake
        )
        untyped: Any = app  # Any: httpx has its own ASGI types
        async with httpx.AsyncClient(
            verify=PLAIN, transport=httpx.ASGITransport(app=untyped), base_url="http://x"
        ) as client:
            path = f"/api/projects/{project.id}/videos"
            answer = await client.post(path, content=form(video()), headers=service.headers)
        assert answer.status_code == 404, answer.text
        await service.nothing_is_left()
