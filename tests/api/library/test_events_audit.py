"""Every change writes one event with its token; refused requests write none, and change nothing.

All operations of the description that are not read-only have a case here: the test fails for an
added operation without one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.support.api.application import ApiService, Json
from tests.support.api.upload_clips import clip, picture
from tests.support.sql import run_sql

EVENTS: Final = Path(__file__).parents[3] / "docs" / "events.md"
# Tables without records: allocated numbers, notices for web-sockets, commands to the ingest.
NOT_RECORDS: Final = {"sqlite_sequence", "notices", "commands"}
Ids = dict[str, int]


class OperationCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of an operation that succeeds: its path and its body."""

    path: str
    body: object = None
    status: int = 200
    files: Callable[[], dict[str, Any]] | None = None  # Any: as httpx takes them
    # A body that is refused; None where an operation takes none.
    wrong: object = msgspec.UNSET


NAMED = {"name": "Another"}
BAD = {"nonsense": 1}

CASES: Final[dict[str, OperationCall]] = {
    "add_stream": OperationCall(
        path="projects/1/streams", body={"title": "x"}, status=201, wrong=BAD
    ),
    "edit_stream": OperationCall(
        path="streams/{stream}",
        body={"title": "y", "tags": [{"name": "new"}, {"id": 1}], "countries": ["RO"]},
        wrong={"title": "z", "tags": [{"name": "never"}, {"id": 999}]},
    ),
    "publish_stream": OperationCall(path="streams/{stream}/publish"),
    "unpublish_stream": OperationCall(path="streams/{stream}/unpublish"),
    "rotate_key": OperationCall(path="streams/{stream}/rotate-key"),
    "change_settings": OperationCall(
        path="streams/{stream}/settings", body={"failover": {"reconnect_seconds": 7}}, wrong=BAD
    ),
    "change_project_settings": OperationCall(
        path="projects/1/settings", body={"failover": {"reconnect_seconds": 8}}, wrong=BAD
    ),
    "change_project_mail": OperationCall(
        path="projects/1/mail", body={"to": ["a@b.example"]}, wrong={"to": ["nobody"]}
    ),
    "change_installation_mail": OperationCall(
        path="operations/mail", body={"to": ["a@b.example"]}, wrong={"to": ["nobody"]}
    ),
    "put_slate": OperationCall(
        path="streams/{stream}/slate", files=lambda: {"picture": ("p.png", picture())}
    ),
    "delete_slate": OperationCall(path="streams/{stream}/slate", status=204),
    "put_project_slate": OperationCall(
        path="projects/1/slate", files=lambda: {"picture": ("p.png", picture())}
    ),
    "delete_project_slate": OperationCall(path="projects/1/slate", status=204),
    "add_backup": OperationCall(path="streams/{stream}/backups", status=201),
    "delete_backup": OperationCall(path="streams/{stream}/backups/{backup}", status=204),
    "upload_video": OperationCall(
        path="projects/1/videos",
        status=201,
        files=lambda: {"video": ("b.mp4", clip())},
    ),
    "add_upload_link": OperationCall(
        path="projects/1/upload-links",
        body={"title": "x"},
        status=201,
        wrong={"most_bytes": 0},
    ),
    "delete_upload_link": OperationCall(path="projects/1/upload-links/{upload_link}", status=204),
    "import_video": OperationCall(
        path="projects/1/imports",
        body={"url": "https://films.example/a.mp4"},
        status=201,
        wrong={"url": "ftp://films.example/a.mp4"},
    ),
    "replace_file": OperationCall(
        path="videos/{video}/file", files=lambda: {"video": ("c.mp4", clip())}
    ),
    "edit_video": OperationCall(
        path="videos/{video}",
        body={"title": "y", "tags": [{"name": "newer"}]},
        wrong={"title": "z", "category": 999},
    ),
    "choose_player": OperationCall(
        path="videos/{video}/player", body={"player": 1}, wrong={"player": 999}
    ),
    "put_poster": OperationCall(
        path="videos/{video}/poster", files=lambda: {"poster": ("p.png", picture())}
    ),
    "unpublish_video": OperationCall(path="videos/{video}/unpublish"),
    "publish_video": OperationCall(path="videos/{video}/publish"),
    "add_project": OperationCall(path="projects", body=NAMED, status=201, wrong=BAD),
    "edit_project": OperationCall(path="projects/1", body=NAMED, wrong=BAD),
    "add_token": OperationCall(path="tokens", body=NAMED, status=201, wrong=BAD),
    "revoke_token": OperationCall(path="tokens/{token}", status=204),
    "add_tag": OperationCall(path="projects/1/tags", body=NAMED, status=201, wrong={"name": "tag"}),
    "edit_tag": OperationCall(path="tags/{tag}", body={"name": "Renamed"}, wrong={"name": ""}),
    "add_category": OperationCall(
        path="projects/1/categories", body=NAMED, status=201, wrong={"name": "CATEGORY"}
    ),
    "edit_category": OperationCall(path="categories/{category}", body={"active": False}, wrong=BAD),
    "add_player": OperationCall(path="projects/1/players", body=NAMED, status=201, wrong=BAD),
    "edit_player": OperationCall(
        path="players/{player}", body={"muted": True}, wrong={"muted": "x"}
    ),
    "delete_tag": OperationCall(path="tags/{tag}", status=204),
    "delete_category": OperationCall(path="categories/{category}", status=204),
    "delete_player": OperationCall(path="players/{player}", status=204),
    "delete_video": OperationCall(path="videos/{video}", status=204),
    "delete_stream": OperationCall(path="streams/{stream}", status=204),
    "delete_project": OperationCall(path="projects/{project}", status=204),
}
# Operations that need an ingest or other parts that are missing here, and where they are tested.
ELSEWHERE: Final = {
    "add_clip": "a run (tests/api/streams/test_clips.py)",
    "keep_video": "a recording (tests/storage/catalog/videos/test_recordings.py)",
    "end_stream": "a run, of an ingest (tests/e2e/test_commands.py)",
    "pause_stream": "a run, of an ingest (tests/api/streams/test_commands.py)",
    "resume_stream": "the same",
    "drill_failover": "the same",
    "allow_encoders": "a stream that was ended (tests/api/streams/test_commands.py)",
    "restore_trash": "something in the trash (tests/api/library/test_trash.py)",
    "delete_trash": "the same",
    "restore_file": "a replaced file (tests/api/uploads/test_single_request_restoring.py)",
    "test_project_mail": "a mail server; nothing changes (tests/api/library/test_alert_mail.py)",
    "test_installation_mail": "the same",
    "create_upload": "tus, with headers of its own (tests/api/uploads/test_resumable.py)",
    "append": "the same",
    "end_upload": "the same",
    "ask_offset": "the same",
    "other_method": "the same",
    "retry_failed_videos": "the same (tests/api/videos/test_collection_retry.py)",
    "retry_video": "a video that could not be transcoded (tests/api/videos/test_item.py)",
}


def dump(location: str | Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables with records."""
    tables = run_sql(
        location,
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if isinstance(location, Path)
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    )
    names = {str(name) for (name,) in tables} - set(NOT_RECORDS)
    return {name: sorted(run_sql(location, f'SELECT * FROM "{name}"'), key=repr) for name in names}


async def create_records(api_service: ApiService) -> Ids:
    """Add one record of each kind, and return the IDs for the paths of the cases."""
    ids = {"stream": 1, "backup": 1}  # the first start's
    for noun, path, body in (
        ("tag", "projects/1/tags", {"name": "Tag"}),
        ("category", "projects/1/categories", {"name": "Category"}),
        ("player", "projects/1/players", {"name": "Player"}),
        ("token", "tokens", {"name": "Token", "project": 1}),
        ("project", "projects", {"name": "Project"}),
        ("upload_link", "projects/1/upload-links", {}),
    ):
        answer = await api_service.client.post(f"/api/{path}", json=body, headers=api_service.owner)
        assert answer.status_code == 201, answer.text
        ids[noun] = answer.json()[noun]["id"]
    answer = await api_service.client.post(
        "/api/projects/1/videos", files={"video": ("a.mp4", clip())}, headers=api_service.owner
    )
    assert answer.status_code == 201, answer.text
    return {**ids, "video": answer.json()["video"]["id"]}


def write_operations(document: Json) -> dict[str, str]:
    """Return the operations that are not read-only, with their methods."""
    return {
        operation["operationId"]: method
        for operations in document["paths"].values()
        for method, operation in operations.items()
        if method != "get"
    }


async def test_each_change_leaves_one_event_and_each_refusal_none(
    api_service: ApiService, catalog_database: str | Path
) -> None:
    document = (await api_service.client.get("/schema/openapi.json")).json()
    methods = write_operations(document)
    assert set(methods) == set(CASES) | set(ELSEWHERE)
    ids = await create_records(api_service)
    reader = await api_service.headers_of("reader", 1, write=False)
    stranger = await api_service.headers_of("stranger", ids["project"], write=True)
    for name, case in CASES.items():
        path = f"/api/{case.path.format(**ids)}"
        before = dump(catalog_database)

        async def ask(headers: dict[str, str], body: object, *, case: OperationCall = case) -> int:
            answer = await api_service.client.request(
                methods[name].upper(),  # noqa: B023  # called within the round
                path,  # noqa: B023
                headers=headers,
                json=None if case.files else body,
                files=case.files() if case.files else None,
            )
            return answer.status_code

        assert await ask({}, case.body) == 401, name
        assert await ask(reader, case.body) == 403, name
        if case.path not in ("projects", "tokens", "projects/{project}", "operations/mail"):
            assert await ask(stranger, case.body) == 404, name
        if case.wrong is not msgspec.UNSET:
            assert await ask(api_service.owner, case.wrong) in (409, 422), name
        assert dump(catalog_database) == before, f"{name} was refused and changed something"

        assert await ask(api_service.owner, case.body) == case.status, name
        after = dump(catalog_database)
        old = set(before["events"])
        new = [event for event in after["events"] if event not in old]
        assert len(new) == 1, f"{name}: {new}"
        (event,) = new
        assert 1 in event[-3:-1], f"{name}: no token's number in {event}"
        assert f"`{event[3]}`" in EVENTS.read_text(), f"{event[3]!r} is not in docs/events.md"
        assert after != {**before, "events": after["events"]}, f"{name} changed nothing"


async def test_the_owner_reads_the_events_and_finds_no_secret(api_service: ApiService) -> None:
    stream = await api_service.add("Secretive")
    token = await api_service.client.post(
        "/api/tokens", json={"name": "t"}, headers=api_service.owner
    )
    await api_service.client.post(
        f"/api/streams/{stream['id']}/rotate-key", headers=api_service.owner
    )
    answer = await api_service.client.get("/api/projects/1/events", headers=api_service.owner)
    events = answer.json()["data"]
    assert [each["id"] for each in events] == sorted((e["id"] for e in events), reverse=True)
    assert {each["token"] for each in events[:3]} == {1}
    assert token.json()["secret"] not in answer.text
    assert stream["stream"].partition("_")[2] not in answer.text
