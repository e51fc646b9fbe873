"""Resumable uploads in the OpenAPI document."""

from api.http.tus import CHECKSUM_MISMATCH
from tests.support.api.application import ApiService

UPLOADS = "/api/projects/{project_id}/uploads"


async def test_each_operation_lists_the_headers_that_it_reads(api_service: ApiService) -> None:
    paths = (await api_service.client.get("/schema/openapi.json")).json()["paths"]
    operations = {**paths[f"{UPLOADS}/{{upload_name}}"], "create": paths[UPLOADS]["post"]}
    headers = {
        name: {each["name"] for each in operation["parameters"] if each["in"] == "header"}
        for name, operation in operations.items()
    }
    appending = {"Tus-Resumable", "Upload-Offset", "Upload-Length", "Upload-Checksum"}
    assert headers == {
        "create": {
            "Tus-Resumable", "Upload-Length", "Upload-Defer-Length", "Upload-Metadata",
            "Upload-Checksum",
        },
        "get": set(),
        "head": {"Tus-Resumable"},
        "delete": {"Tus-Resumable"},
        "patch": appending,
        "post": {*appending, "X-HTTP-Method-Override"},
    }  # fmt: skip


async def test_a_wrong_checksum_is_among_the_responses(api_service: ApiService) -> None:
    paths = (await api_service.client.get("/schema/openapi.json")).json()["paths"]
    operations = paths[f"{UPLOADS}/{{upload_name}}"]
    assert all(
        str(CHECKSUM_MISMATCH) in operations[method]["responses"] for method in ("patch", "post")
    )
    assert str(CHECKSUM_MISMATCH) not in operations["get"]["responses"]
