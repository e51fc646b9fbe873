"""The refusals of every operation in the description, on both databases.

The operations come from the OpenAPI document, so that added ones are tested, too. After each round
all records are read again: a refused request has changed nothing.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from httpx import Response

from storage.catalog.records.common import Change
from tests.api.test_contract import add_label, call
from tests.support.api import contract_shapes
from tests.support.api.application import ApiService, Json
from tests.support.api.upload_clips import upload
from tests.support.shared_engines import mostly_on

_METHODS: Final = {"GET", "POST", "PUT", "DELETE", "PATCH"}
# These paths name no record: the answers depend on the caller alone.
OF_NO_RECORD: Final = {
    "/api/projects", "/api/tokens", "/api/countries", "/api/resolutions", "/api/trash",
    "/api/operations/mail", "/api/operations/mail/test",
}  # fmt: skip
# Reads no record, but asks the ingest process, of which there is none here.
OF_AN_INGEST: Final = "/api/streams/{stream_id}/ingest"
# Answers with a file that holds the stream's key (tests/api/streams/test_obs_profile.py).
OF_A_FILE: Final = "/api/streams/{stream_id}/obs-profile"
# Operations that are as an interface from before us has them: they take any query.
OF_OLD_CLIENTS: Final = {
    "GET /api/videos/{video_id}", "PUT /api/videos/{video_id}",
    "GET /api/projects/{project_id}/videos", "POST /api/projects/{project_id}/videos",
    "GET /api/projects/{project_id}/streams", "POST /api/projects/{project_id}/streams",
    "PUT /api/streams/{stream_id}", "GET /api/projects/{project_id}/categories",
    "GET /api/projects/{project_id}/tags", "PUT /api/tags/{tag_id}", "GET /api/countries",
}  # fmt: skip
# Answers with a video's source file (tests/api/uploads/test_source_file.py).
OF_A_SOURCE: Final = "/api/videos/{video_id}/file"
# Resumable uploads speak tus, which has other answers (tests/api/uploads/test_resumable.py).
OF_TUS: Final = "/api/projects/{project_id}/uploads"


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


class Operation(msgspec.Struct, frozen=True):
    """An operation of the description; `body` is the type of its body, "" where it has none."""

    method: str
    path: str
    body: str

    def at(self, numbers: Mapping[str, object]) -> str:
        return self.path.format(**numbers)


class PopulatedService(msgspec.Struct, frozen=True):
    """A service with one record of each kind in its first project; `numbers` fill paths."""

    api_service: ApiService
    operations: list[Operation]
    numbers: Mapping[str, object]

    def of(self, *methods: str, body: str | None = None) -> Iterator[Operation]:
        for operation in self.operations:
            if operation.method in methods and body in (None, operation.body):
                yield operation

    async def all_records(self) -> dict[str, Json]:
        """Return all records that the owner can read."""
        bodies: dict[str, Json] = {}
        for operation in self.of("GET"):
            if operation.path in (OF_AN_INGEST, OF_A_FILE, OF_A_SOURCE):
                continue
            path = operation.at(self.numbers)
            bodies[path] = await call(self.api_service, "GET", path)
        return bodies


@pytest.fixture
async def populated_service(api_service: ApiService) -> PopulatedService:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    operations = [
        Operation(
            method.upper(), path, next(iter(each.get("requestBody", {}).get("content", {})), "")
        )
        for path, methods in document["paths"].items()
        for method, each in methods.items()
        if method.upper() in _METHODS and not path.startswith(OF_TUS)
    ]
    stream = await api_service.add()
    await api_service.headers_of("anybody's", 1, write=False)
    tokens = await call(api_service, "GET", "/api/tokens")
    await api_service.client.post(
        "/api/projects/1/upload-links", json={}, headers=api_service.owner
    )
    links = await call(api_service, "GET", "/api/projects/1/upload-links")
    deleted = await api_service.add("Deleted")
    await api_service.client.delete(f"/api/streams/{deleted['id']}", headers=api_service.owner)
    trash = await call(api_service, "GET", "/api/projects/1/trash")
    numbers = {
        "project_id": 1,
        "trash_id": trash["data"][0]["id"],
        "stream_id": stream["id"],
        "backup_id": stream["backups"][0]["id"],
        "video_id": (await upload(api_service))["video"]["id"],
        "tag_id": await add_label(api_service, "tag", "Tag"),
        "category_id": await add_label(api_service, "category", "Category"),
        "player_id": await add_label(api_service, "player", "Player"),
        "token_id": tokens["data"][0]["id"],
        "link_id": links["data"][0]["id"],
    }
    assert len(operations) > 40
    return PopulatedService(api_service=api_service, operations=operations, numbers=numbers)


def refused(answer: Response, *statuses: int) -> Json:
    """Check that an answer is a refusal in the common shape, and return its body."""
    description = (
        f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text}"
    )
    assert answer.status_code in statuses, description
    assert answer.headers["content-type"] == "application/json", description
    assert answer.headers["cache-control"] == "no-store", description
    body = answer.json()
    assert contract_shapes.refusal_faults(body) == [], description
    # Only fields at fault are named, and only these two statuses have any.
    assert ("errors" not in body) or answer.status_code in (409, 422), description
    return body


def sendable(operation: Operation) -> dict[str, Any]:  # Any: what httpx takes
    """Return a body of the right type, if the operation has one."""
    if operation.body == "application/json":
        return {"json": {"name": "New", "title": "New", "player": None}}
    if operation.body == "multipart/form-data":
        return {"files": {"video": ("a.mp4", b"no media", "video/mp4")}}
    return {}


@mostly_on("sqlite")
async def test_every_operation_requires_a_valid_token(populated_service: PopulatedService) -> None:
    before = await populated_service.all_records()
    good = populated_service.api_service.owner["Authorization"]
    bad = (None, "", "Bearer", "Bearer x", good + "x", good[:-1], good.replace("Bearer", "Basic"))
    for operation in populated_service.operations:
        for header in bad:
            headers = {} if header is None else {"Authorization": header}
            answer = await populated_service.api_service.client.request(
                operation.method,
                operation.at(populated_service.numbers),
                headers=headers,
                **sendable(operation),
            )
            assert "errors" not in refused(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_an_unknown_query_parameter_is_refused_but_where_clients_were_there_before_us(
    populated_service: PopulatedService,
) -> None:
    owner, ignored = populated_service.api_service.owner, set[str]()
    before = await populated_service.all_records()
    for operation in populated_service.operations:
        name = f"{operation.method} {operation.path}"
        if name in OF_OLD_CLIENTS and operation.method != "GET":
            continue  # it would do what it is for
        answer = await populated_service.api_service.client.request(
            operation.method,
            f"{operation.at(populated_service.numbers)}?nonsense=1",
            headers=owner,
            **sendable(operation),
        )
        if name in OF_OLD_CLIENTS:
            assert answer.status_code == 200, name
            ignored.add(name)
        else:
            assert list(refused(answer, 422)["errors"]) == ["nonsense"], name
    assert len(ignored) == 6
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_a_token_that_may_read_changes_nothing(populated_service: PopulatedService) -> None:
    for project in (1, None):
        reader = await populated_service.api_service.headers_of("reader", project, write=False)
        before = await populated_service.all_records()
        for operation in populated_service.of("POST", "PUT", "DELETE"):
            answer = await populated_service.api_service.client.request(
                operation.method,
                operation.at(populated_service.numbers),
                headers=reader,
                **sendable(operation),
            )
            refused(answer, 403)
        for operation in populated_service.of("GET"):
            path = operation.at(populated_service.numbers)
            answer = await populated_service.api_service.client.get(path, headers=reader)
            if operation.path == OF_AN_INGEST:
                refused(answer, 503)
                continue
            # Only tokens that may write can list tokens and links, or read a stream's key.
            of_makers = operation.path == OF_A_FILE or path in (
                "/api/tokens",
                "/api/projects/1/upload-links",
            )
            # Deleted projects are of the installation, whose mail takes a token for all projects.
            of_all = path in ("/api/trash", "/api/operations/mail") and project is not None
            assert answer.status_code == (403 if of_makers or of_all else 200), path
        assert await populated_service.all_records() == before


@mostly_on("postgresql")
async def test_another_projects_records_are_as_if_they_were_not_there(
    populated_service: PopulatedService,
) -> None:
    api_service = populated_service.api_service
    other = await api_service.catalog.projects.add("Other", Change(1))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    before = await populated_service.all_records()
    by_key = {**populated_service.numbers, "project_id": api_service.key}
    nowhere = dict.fromkeys(populated_service.numbers, 2_000_000_000)
    broken: dict[str, Any] = {"content": b"{"}  # Any: what httpx takes
    requests = 0
    for operation in populated_service.operations:
        if operation.path in OF_NO_RECORD:
            continue
        bodies: list[Json] = []
        for numbers in (populated_service.numbers, by_key, nowhere):
            for content in (sendable(operation), broken):
                answer = await api_service.client.request(
                    operation.method,
                    operation.at(numbers),
                    headers=stranger,
                    **content,
                )
                # Deleting a project requires a token for all projects, checked before the lookup.
                ends = (
                    operation.method == "DELETE" and operation.path == "/api/projects/{project_id}"
                )
                bodies.append(refused(answer, 403 if ends else 404))
                requests += 1
        # Another project's records look exactly like missing ones.
        assert all(body == bodies[0] for body in bodies), operation
    assert requests > 200
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_lists_show_only_records_of_the_callers_project(
    populated_service: PopulatedService,
) -> None:
    api_service = populated_service.api_service
    other = await api_service.catalog.projects.add("Other", Change(1))
    stranger = await api_service.headers_of("stranger", other.id, write=True)
    listed = (await api_service.client.get("/api/projects", headers=stranger)).json()
    assert [each["id"] for each in listed["data"]] == [other.id]
    assert listed["meta"]["total"] == 1
    listed = (await api_service.client.get("/api/tokens", headers=stranger)).json()
    assert [(each["name"], each["project"]) for each in listed["data"]] == [("stranger", other.id)]
    before = await populated_service.all_records()
    client = api_service.client
    refused(await client.post("/api/projects", json={"name": "x"}, headers=stranger), 403)
    for project, status in ((None, 403), (1, 422), (99, 422)):
        body = {"name": "x", "project": project, "write": True}
        refused(await client.post("/api/tokens", json=body, headers=stranger), status)
    assert await populated_service.all_records() == before


@pytest.mark.parametrize("kind", ["stream", "video"])
async def test_labels_and_players_of_another_project_cannot_be_linked(
    populated_service: PopulatedService, kind: str
) -> None:
    api_service = populated_service.api_service
    other = (await call(api_service, "POST", "/api/projects", {"name": "Other"}, 201))["project"][
        "id"
    ]
    theirs = {
        name: await add_label(api_service, name, "Theirs", other)
        for name in ("tag", "category", "player")
    }
    before = await populated_service.all_records()
    record_path = f"/api/{kind}s/{populated_service.numbers[f'{kind}_id']}"
    for tag, category, player in (
        (theirs["tag"], theirs["category"], theirs["player"]), (99_999, 99_998, 99_997),
        (-1, 0, -(1 << 70)), (1 << 31, 1 << 63, 1 << 64),
    ):  # fmt: skip
        good = {"title": "New", "description": "New", "countries": [642]}
        links: tuple[tuple[str, str, Json], ...] = (
            ("tags", record_path, {**good, "tags": [{"name": "Fresh"}, {"id": tag}]}),
            ("category", record_path, {**good, "tags": [{"name": "Fresh"}], "category": category}),
            ("player", record_path, {**good, "player": player})
            if kind == "stream"
            else ("player", f"{record_path}/player", {"player": player}),
        )
        for field, path, body in links:
            answer = await api_service.client.put(path, json=body, headers=api_service.owner)
            assert set(refused(answer, 422)["errors"]) == {field}, body
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_unknown_countries_and_resolutions_are_named(
    populated_service: PopulatedService,
) -> None:
    api_service = populated_service.api_service
    before = await populated_service.all_records()
    for kind in ("stream", "video"):
        path = f"/api/{kind}s/{populated_service.numbers[f'{kind}_id']}"
        for wrong in ("XX", "ROU", "ß", "642", 643_000, -1, 1 << 70):
            body = {"title": "New", "countries": ["RO", wrong, 276]}
            answer = await api_service.client.put(path, json=body, headers=api_service.owner)
            (description,) = refused(answer, 422)["errors"]["countries"]
            assert str(wrong)[:20] in description
    path = f"/api/streams/{populated_service.numbers['stream_id']}"
    for numbers in ([1, 7], [8], [0], [99], [-1], [1 << 70], [], ["720p"], [True], None, 1):
        body = {"title": "New", "resolutions": numbers}
        answer = await api_service.client.put(path, json=body, headers=api_service.owner)
        assert set(refused(answer, 422)["errors"]) == {"resolutions"}, numbers
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_an_invalid_body_is_refused_with_the_documented_status(
    populated_service: PopulatedService,
) -> None:
    api_service, json_type = populated_service.api_service, "application/json"
    before = await populated_service.all_records()
    operations = 0
    for operation in populated_service.of("POST", "PUT", body=json_type):
        path = operation.at(populated_service.numbers)

        async def send(
            content: bytes, kind: str = json_type, path: str = path, method: str = operation.method
        ) -> Response:
            headers = {**api_service.owner, "Content-Type": kind}
            return await api_service.client.request(method, path, content=content, headers=headers)

        for content in (
            b"{",
            b'{"name":NaN}',
            b"title=x",
            b'{"name":"\xff"}',
            b'{"a":1}}',
            b"[" * 9999,
        ):
            refused(await send(content), 400)
        for content in (b"[]", b"null", b'"x"', b"1"):
            assert "errors" not in refused(await send(content), 422)
        good = json.dumps({"name": "New", "title": "New", "player": None}).encode()
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
        ):
            refused(await send(good, kind), 415)
        errors = refused(await send(b'{"hash":"x","id":5,"unheard\\u0000 of":{}}'), 422)["errors"]
        assert {"hash", "id", "unheard\x00 of"} <= set(errors), operation
        refused(await send(b" " * ((1 << 20) + 1)), 413)
        operations += 1
    assert operations > 10
    for operation in populated_service.of("POST", "PUT", body="multipart/form-data"):
        for kind, status in ((json_type, 415), ("text/plain", 415), ("multipart/form-data", 400)):
            headers = {**api_service.owner, "Content-Type": kind}
            path = operation.at(populated_service.numbers)
            answer = await api_service.client.request(
                operation.method, path, content=b"{}", headers=headers
            )
            refused(answer, status)
        files = {"unheard": ("a.mp4", b"x", "video/mp4")}
        answer = await api_service.client.request(
            operation.method,
            operation.at(populated_service.numbers),
            files=files,
            headers=api_service.owner,
        )
        assert "unheard" in refused(answer, 422)["errors"]
    assert await populated_service.all_records() == before


@mostly_on("sqlite")
async def test_a_charset_beside_the_type_of_a_body_is_no_other_type(
    api_service: ApiService,
) -> None:
    path = f"/api/streams/{(await api_service.add())['id']}"
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        headers = {**api_service.owner, "Content-Type": kind}
        answer = await api_service.client.put(
            path, content='{"title": "é"}'.encode(), headers=headers
        )
        assert answer.status_code == 200
        assert answer.json()["stream"]["title"] == "é"


@mostly_on("sqlite")
async def test_other_methods_are_refused_and_the_right_ones_named(
    populated_service: PopulatedService,
) -> None:
    before = await populated_service.all_records()
    paths: dict[str, set[str]] = {}
    for operation in populated_service.operations:
        paths.setdefault(operation.path, set()).add(operation.method)
    for path, methods in paths.items():
        for method in sorted(_METHODS - methods):
            answer = await populated_service.api_service.client.request(
                method,
                path.format(**populated_service.numbers),
                headers=populated_service.api_service.owner,
            )
            refused(answer, 405)
            allowed = {each.strip() for each in answer.headers["allow"].split(",")}
            assert allowed - {"OPTIONS"} == methods, path
    assert await populated_service.all_records() == before


@mostly_on("postgresql")
async def test_missing_paths_are_404_in_json(populated_service: PopulatedService) -> None:
    api_service = populated_service.api_service
    for path in (
        "/api",
        "/api/",
        "/api/nothing",
        "/api/videos",
        "/api/streams/1/nothing",
        "/api/%00",
    ):
        for method in ("GET", "POST"):
            refused(await api_service.client.request(method, path, headers=api_service.owner), 404)
    wrong = ("0", "-1", "01", "1.0", "x", "%00", "2147483648", "9223372036854775808", "9" * 99)
    before = await populated_service.all_records()
    for operation in populated_service.operations:
        if operation.path in OF_NO_RECORD:
            continue
        for number in wrong:
            path = operation.at(dict.fromkeys(populated_service.numbers, number))
            answer = await api_service.client.request(
                operation.method, path, headers=api_service.owner, **sendable(operation)
            )
            refused(answer, 404)
    assert await populated_service.all_records() == before
