"""Forms with files in the OpenAPI document: each part, and which one is required."""

import pytest

from tests.support.api.application import ApiService


@pytest.mark.parametrize(
    ("method", "path", "files", "texts", "required"),
    [
        pytest.param("post", "/projects/{project_id}/videos", {"video", "poster"},
                     {"title", "description"}, "video", id="an upload"),
        pytest.param("put", "/videos/{video_id}/file", {"video"}, set[str](), "video",
                     id="another file"),
        pytest.param("put", "/videos/{video_id}/poster", {"poster"}, set[str](), "poster",
                     id="a poster"),
        pytest.param("put", "/streams/{stream_id}/slate", {"picture"}, set[str](), "picture",
                     id="a slate"),
    ],
)  # fmt: skip
async def test_a_form_lists_its_files_and_texts(
    api_service: ApiService, method: str, path: str, files: set[str], texts: set[str], required: str
) -> None:
    paths = (await api_service.client.get("/schema/openapi.json")).json()["paths"]
    body = paths[f"/api{path}"][method]["requestBody"]
    assert body["required"] is True
    ((kind, content),) = body["content"].items()
    schema = content["schema"]
    assert kind == "multipart/form-data"
    assert (schema["required"], schema["additionalProperties"]) == ([required], False)
    parts = schema["properties"]
    # Generators of clients recognise a file by its format.
    assert {name for name, each in parts.items() if each.get("format") == "binary"} == files
    assert set(parts) == files | texts
