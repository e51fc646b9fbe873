"""The whole application: responses for unknown paths, and its OpenAPI description."""

from typing import Any

import pytest
from litestar import asgi, get
from litestar.params import FromPath
from litestar.types import Receive, Scope, Send

from api.app import create_app
from tests.support.api.application import ADDRESSES, STREAMS, ApiService
from tests.support.api.in_loop_client import client_of


@pytest.mark.parametrize(
    "path", ["/nothing", "/api", "/api/nothing", "/api/project", "/api/projects/1/streams/1"]
)
async def test_unknown_paths_are_404_in_json(api_service: ApiService, path: str) -> None:
    for headers in ({}, api_service.owner):
        answer = await api_service.client.get(path, headers=headers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/json"
        assert set(answer.json()) == {"message"}


# The responses other than JSON: a video's own file, a profile for OBS.
FILES = (["application/octet-stream"], ["application/zip"])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_another_method_is_405_and_names_the_right_ones(
    api_service: ApiService, method: str
) -> None:
    answer = await api_service.client.request(method, STREAMS, headers=api_service.owner)
    assert answer.status_code == 405
    assert set(answer.json()) == {"message"}
    assert {"GET", "POST"} <= set(answer.headers["allow"].replace(" ", "").split(","))


async def test_the_description_is_an_openapi_document(api_service: ApiService) -> None:
    answer = await api_service.client.get("/schema/openapi.json")
    assert answer.status_code == 200
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == "1.2.3"
    operations = document["paths"]["/api/projects/{project_id}/streams"]
    assert set(operations) == {"get", "post"}
    body = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["title"]
    assert body["properties"]["title"]["maxLength"] == 255
    assert operations["post"]["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


async def test_the_description_names_every_key_that_is_answered(api_service: ApiService) -> None:
    schemas = (await api_service.client.get("/schema/openapi.json")).json()["components"]["schemas"]
    added = await api_service.add()
    assert set(schemas["Stream"]["properties"]) == set(added)
    page = await api_service.listed()
    assert set(schemas["StreamItem"]["properties"]) == set(page["data"][0])
    assert set(schemas["Meta"]["properties"]) == set(page["meta"])


async def test_every_refusal_is_described_in_its_one_shape(api_service: ApiService) -> None:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if "content" not in answer:
                    assert int(status) < 300, status
                    continue
                assert status != "204"
                # Some answer with a file, but their refusals are JSON, too.
                content: dict[str, Any] = answer["content"]
                schema = content.get("application/json", {}).get("schema")
                is_error = schema == {"$ref": "#/components/schemas/ErrorBody"}
                assert is_error == (int(status) >= 400), status
                assert schema is not None or list(content) in FILES, content


async def test_handlers_beside_the_api_are_served_and_not_described(
    api_service: ApiService,
) -> None:
    @asgi("/live", is_mount=True, copy_scope=True)
    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        asked: Any = scope  # ASGI's own maps, of several kinds
        request: Any = await receive()
        headers = [(b"location", b"/live/session")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        body = f"{asked['method']} {asked['path']} ".encode() + request["body"]
        await send({"type": "http.response.body", "body": body, "more_body": False})

    @get("/watch/{hash_:str}", sync_to_thread=False)
    def watch(hash_: FromPath[str]) -> str:
        return hash_

    app = create_app(
        catalog=api_service.catalog,
        addresses=ADDRESSES,
        broadcaster_key="key",
        handlers=[plain, watch],
    )
    async with client_of(app) as client:
        for method in ("GET", "POST", "PATCH", "DELETE"):
            answer = await client.request(method, "/live/a/b/c.m4s", content=b"v=0")
            assert (answer.status_code, answer.headers["location"]) == (201, "/live/session")
            assert answer.text == f"{method} /a/b/c.m4s/ v=0"  # Litestar ends paths with a slash
        assert (await client.get("/watch/abc")).text == "abc"
        assert (await client.get(STREAMS)).status_code == 401
        assert (await client.get(STREAMS, headers=api_service.owner)).status_code == 200
        document = (await client.get("/schema/openapi.json")).json()
        assert {path.split("/")[1] for path in document["paths"]} == {"api"}
