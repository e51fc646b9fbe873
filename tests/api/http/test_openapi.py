"""The OpenAPI document: as a page, as JSON, as YAML."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar, Request, get
from litestar.openapi import OpenAPIConfig

from api.http.openapi import ReadyDocuments, ReferencePage
from tests.support.api.application import ApiService
from tests.support.api.in_loop_client import client_of


async def test_the_page_describes_every_operation_and_loads_nothing_foreign(
    api_service: ApiService,
) -> None:
    answer = await api_service.client.get("/schema")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    page = answer.text
    assert "POST /api/projects/{project_id}/streams" in page
    assert "GET /api/projects/{project_id}/streams" in page
    assert "sort_column" in page
    assert "<script" not in page
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page) == []


async def test_every_link_of_the_page_leads_somewhere(api_service: ApiService) -> None:
    page = (await api_service.client.get("/schema")).text
    links = set(re.findall(r'href="([^"]+)"', page))
    names = set(re.findall(r'id="([^"]+)"', page))
    assert {link[1:] for link in links if link.startswith("#")} <= names
    assert len(names) > 5
    for link in links:
        if not link.startswith("#"):
            assert (await api_service.client.get(link)).status_code == 200


# The names are those of 0.1, since generated clients refer to them.
LISTS = {
    "Listing_api.labels.Label_",
    "Listing_api.linkrecords.ListedUploadLink_",
    "Listing_api.players.Player_",
    "Listing_api.projects.Project_",
    "Listing_api.schemas.Event_",
    "Listing_api.schemas.StreamItem_",
    "Listing_api.tokens.Token_",
    "Listing_api.trash.TrashItem_",
    "Listing_api.videobodies.VideoItem_",
}


async def test_the_schemas_of_lists_keep_their_names_wherever_their_modules_are(
    api_service: ApiService,
) -> None:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    assert {name for name in document["components"]["schemas"] if "Listing" in name} == LISTS
    answers = [
        answer["content"]["application/json"]["schema"]["$ref"]
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if status == "200" and "application/json" in answer.get("content", {})
    ]
    assert {f"#/components/schemas/{name}" for name in LISTS} <= set(answers)


async def test_the_document_as_yaml_is_rendered_once(api_service: ApiService) -> None:
    began = time.process_time()
    first = await api_service.client.get("/schema/openapi.yaml")  # 330 ms of CPU
    rendered = time.process_time()
    for _ in range(4):
        again = await api_service.client.get("/schema/openapi.yaml")
        assert (again.content, again.headers) == (first.content, first.headers)
    assert time.process_time() - rendered < rendered - began


async def test_a_document_is_rendered_once_and_beside_the_event_loop() -> None:
    rendered_on: list[int] = []

    class NumberedPage(ReferencePage):
        def render(self, request: Request[Any, Any, Any], openapi_schema: Any) -> bytes:
            rendered_on.append(threading.get_ident())
            return super().render(request, openapi_schema)

    page = NumberedPage()
    documents = ReadyDocuments([page])
    config = OpenAPIConfig("Title", "1", render_plugins=[page], openapi_router=documents.router())

    @get("/thread", sync_to_thread=False)
    def thread() -> int:
        return threading.get_ident()

    app = Litestar([thread], openapi_config=config, logging_config=None)
    async with client_of(app) as client:
        loop = (await client.get("/thread")).json()
        answers = [(await client.get(path)).text for path in ("/schema", "/schema/")]
    assert answers[0] == answers[1]
    assert "GET /thread" in answers[0]
    assert len(rendered_on) == 1
    assert loop not in rendered_on


PRINT = """
import asyncio
from pathlib import Path
from media.no_op import do_nothing_async
from tests.support.api.in_loop_client import client_of
from storage.catalog import open_catalog
from media.no_op import do_nothing_async
from storage.objects.disk import DiskObjects
from headend.duties.media_remover import StoredMedia
from api.streams.command_client import IngestClient
from tests.support.api.shared_application import application_over

async def main():
    with DiskObjects(Path("objects")) as objects:
        async with open_catalog(Path("catalog.sqlite"), migrate=True) as catalog:
            media = StoredMedia(objects, do_nothing_async)
            app = application_over(
                catalog=catalog, media=media, ingest=IngestClient(catalog, media), objects=objects
            )
            async with client_of(app) as client:
                print((await client.get("/schema/openapi.json")).text)

asyncio.run(main())
"""


@pytest.mark.real
@pytest.mark.parametrize("seeds", ["12", pytest.param("345", marks=pytest.mark.prove)])
def test_the_document_is_the_same_in_each_process(tmp_path: Path, seeds: str) -> None:
    def document(seed: str) -> str:
        folder = tmp_path / seed
        folder.mkdir()
        path = os.pathsep.join([str(Path.cwd()), *sys.path])
        return subprocess.run(
            [sys.executable, "-c", PRINT],
            cwd=folder,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path, "PATH": os.environ["PATH"]},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    documents = {document(seed) for seed in seeds}
    assert len(documents) == 1
    assert "Upload-Offset" in documents.pop()
