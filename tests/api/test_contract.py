"""The interface, operation by operation: every form complete, every value as documented.

All of it runs through the whole application, in `make prove` on both databases: what is different
on them is tried where the statements are (`tests/storage/catalog`). The shapes are those of
`tests.support.api.contract_shapes`. Lists are in `test_contract_lists`, refusals in
`test_contract_refusals`.
"""

from pathlib import Path
from typing import Any

import pytest

from storage.objects.disk import DiskObjects
from tests.api.videos.test_item_made import transcode_videos
from tests.support.api import contract_shapes
from tests.support.api.application import STREAMS, ApiService, Json
from tests.support.api.contract_shapes import faults
from tests.support.api.upload_clips import VIDEOS, clip, picture, upload
from tests.support.shared_engines import mostly_on


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


async def call(
    api_service: ApiService, method: str, path: str, body: object = None, status: int = 200
) -> Json:
    answer = await api_service.client.request(method, path, json=body, headers=api_service.owner)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def add_label(api_service: ApiService, kind: str, name: str, project: object = 1) -> int:
    """Add a tag, category or player, and return its ID."""
    plural = {"tag": "tags", "category": "categories", "player": "players"}[kind]
    body = await call(api_service, "POST", f"/api/projects/{project}/{plural}", {"name": name}, 201)
    return body[kind]["id"]


async def full_edit(api_service: ApiService) -> tuple[Json, Json]:
    """Return a body with all keys of an edit of a video, and the resulting keys of the record."""
    category = await add_label(api_service, "category", "News")
    tag = await add_label(api_service, "tag", "Known")
    edit = {
        "title": "Șah — 👩‍👩‍👧",
        "description": "One\nTwo",
        "category": category,
        "countries": [642, "de", "RO", "Fr"],
        "tags": [{"name": "New"}, {"id": tag}],
    }
    expected = {
        "title": "Șah — 👩‍👩‍👧",
        "description": "One\nTwo",
        "category": {"id": category, "name": "News"},
        "countries": [
            {"id": 642, "code": "RO", "name": "Romania"},
            {"id": 276, "code": "DE", "name": "Germany"},
            {"id": 250, "code": "FR", "name": "France"},
        ],
    }
    return edit, expected


def subset(record: Json, keys: Json) -> Json:
    return {key: record[key] for key in keys}


def test_a_body_of_another_shape_is_noticed() -> None:
    good: Any = {"id": 1, "code": "RO", "name": "Romania"}
    assert faults(good, contract_shapes.COUNTRY) == []
    for change in ({"id": True}, {"id": "1"}, {"id": None}, {"code": "ro"}, {"more": 1}):
        assert len(faults({**good, **change}, contract_shapes.COUNTRY)) == 1, change
    assert faults({"id": 1, "name": "x"}, contract_shapes.COUNTRY) == ["$ lacks code"]
    assert faults([good], contract_shapes.COUNTRY) != []
    assert faults(None, contract_shapes.Nullable(contract_shapes.COUNTRY)) == []
    assert faults([{"id": 1, "name": "x"}, good], [contract_shapes.NAMED]) != []
    assert faults({"x": "https://a/b"}, contract_shapes.POSTERS) != []
    assert faults({"360p": 1}, contract_shapes.POSTERS) != []
    assert faults("2026-01-31T12:00:00Z", contract_shapes.STAMP) != []
    assert contract_shapes.refusal_faults({"message": "x", "errors": {}}) != []
    assert contract_shapes.refusal_faults({"message": "x", "errors": {"a": "b"}}) != []
    assert contract_shapes.refusal_faults({"detail": "x"}) != []
    assert contract_shapes.refusal_faults({"message": "x", "errors": {"a": ["b"]}}) == []


@mostly_on("sqlite")
async def test_a_video_has_its_documented_forms(api_service: ApiService) -> None:
    body = await upload(api_service, name="Über 1.Mai.mov", texts={"description": "Some"})
    assert faults(body, contract_shapes.UPLOAD_VIDEO) == []
    assert body["message"] == "Video added."
    video = body["video"]
    path = f"/api/videos/{video['id']}"
    # The initial state of an upload, as the table of states documents it.
    assert subset(video, video.keys() & {
        "completed", "published", "uploading", "transcoding_progress", "transcoding_eta",
        "completed_at", "published_at", "transcoding_at", "storage_size",
    }) == {
        "completed": False, "published": False, "uploading": False, "transcoding_progress": 0,
        "transcoding_eta": 0, "completed_at": None, "published_at": None, "transcoding_at": None,
        "storage_size": 0,
    }  # fmt: skip
    assert (video["title"], video["name"]) == ("Über 1.Mai", "uber-1-mai")
    assert (video["size"], video["width"], video["height"]) == (len(clip()), 640, 360)
    assert abs(video["length"] - 1) < 0.1
    assert round(video["length"], 3) == video["length"]
    assert video["iso8601_duration"] == f"PT{video['length']:.3f}".rstrip("0").rstrip(".") + "S"
    edit, expected = await full_edit(api_service)
    body = await call(api_service, "PUT", path, edit)
    assert faults(body, contract_shapes.EDIT_VIDEO) == []
    assert body["message"] == "Video updated."
    assert subset(body["video"], expected) == expected
    assert [tag["name"] for tag in body["video"]["tags"]] == ["Known", "New"]
    player = await add_label(api_service, "player", "Dark")
    with_player = await call(api_service, "PUT", f"{path}/player", {"player": player})
    assert faults(with_player, contract_shapes.EDIT_VIDEO) == []
    full = with_player["video"]
    assert full["player"] == {"id": player, "name": "Dark"}
    body = await call(api_service, "GET", path)
    assert faults(body, contract_shapes.SHOW_VIDEO) == []
    same = (contract_shapes.VIDEO_SHOWN.keys() & contract_shapes.VIDEO.keys()) - {"resolutions"}
    assert subset(body["data"], dict.fromkeys(same)) == subset(full, dict.fromkeys(same))
    assert body["data"]["media_resource"] == f"videos/{video['hash']}/index.m3u8"
    (rung,) = body["data"]["resolutions"]
    assert (rung["resolution"], rung["resolution_id"], rung["transcoded"]) == ("360p", 1, 0)
    assert (rung["horizontal_value"], rung["vertical_value"]) == (640, 360)
    body = await call(api_service, "GET", VIDEOS)
    assert faults(body, contract_shapes.LIST_VIDEOS) == []
    assert body["data"] == [subset(full, contract_shapes.VIDEO_ITEM)]


@mostly_on("sqlite")
async def test_a_transcoded_video_is_complete_in_every_form(
    api_service: ApiService, objects: DiskObjects
) -> None:
    files: Any = {"poster": ("p.jpg", picture("jpg"), "image/jpeg")}
    big = (await upload(api_service, data=clip("640x480", "1"), files=files))["video"]
    assert set(big["image_urls"]) == {"360p", "480p"}
    assert big["image_update_at"] is not None
    assert [(each["id"], each["name"]) for each in big["resolutions"]] == [(1, "360p"), (2, "480p")]
    (status,) = await transcode_videos(api_service, objects, big["id"])
    assert status["state"] == "completed", status
    body = await call(api_service, "GET", f"/api/videos/{big['id']}")
    assert faults(body, contract_shapes.SHOW_VIDEO) == []
    record = body["data"]
    assert (record["completed"], record["published"]) == (True, True)
    assert record["completed_at"] is not None
    assert record["published_at"] is not None
    assert [rung["transcoded"] for rung in record["resolutions"]] == [1, 1]
    assert [rung["vertical_value"] for rung in record["resolutions"]] == [360, 480]
    assert all(rung["size"] > 0 for rung in record["resolutions"])
    body = await call(api_service, "PUT", f"/api/videos/{big['id']}", {})
    assert faults(body, contract_shapes.EDIT_VIDEO) == []
    full = body["video"]
    assert (full["transcoding_progress"], full["transcoding_eta"]) == (100, 0)
    assert full["transcoding_at"] is not None
    assert full["storage_size"] >= sum(rung["size"] for rung in record["resolutions"])
    assert (full["uploading"], full["size"]) == (False, big["size"])
    for kind, total in (("completed", 1), ("inprogress", 0), ("recent", 1)):
        body = await call(api_service, "GET", f"{VIDEOS}?type={kind}")
        assert faults(body, contract_shapes.LIST_VIDEOS) == []
        assert body["data"] == [subset(full, contract_shapes.VIDEO_ITEM)] * total


@mostly_on("sqlite")
async def test_a_stream_has_its_documented_forms(api_service: ApiService) -> None:
    body = await call(api_service, "POST", STREAMS, {"title": "Știri"}, 201)
    assert faults(body, contract_shapes.CHANGE_STREAM) == []
    assert body["message"] == "Stream added."
    stream = body["stream"]
    # The initial state of a stream with one backup, as the table of states documents it.
    assert [
        stream[key] for key in ("published", "live", "processing", "paused", "no_audio_stream")
    ] == [False] * 5
    assert stream["receiving_count"] == 0
    assert stream["image_urls"] is None
    assert [(each["live"], each["publish"]) for each in stream["backups"]] == [(False, False)]
    assert [(each["id"], each["name"], each["active"]) for each in stream["resolutions"]] == [
        (1, "360p", True), (2, "480p", True), (3, "720p", True), (4, "1080p", True),
        (5, "1440p", False), (6, "2160p", False),
    ]  # fmt: skip
    edit, expected = await full_edit(api_service)
    player = await add_label(api_service, "player", "Dark")
    path = f"/api/streams/{stream['id']}"
    body = await call(
        api_service, "PUT", path, {**edit, "player": player, "resolutions": [6, 1, 1]}
    )
    assert faults(body, contract_shapes.CHANGE_STREAM) == []
    assert body["message"] == "Stream updated."
    full = body["stream"]
    assert subset(full, expected) == expected
    assert [tag["name"] for tag in full["tags"]] == ["Known", "New"]
    assert full["player"] == {"id": player, "name": "Dark"}
    assert [each["id"] for each in full["resolutions"]] == [1, 2, 3, 4, 5, 6]
    assert [each["id"] for each in full["resolutions"] if each["active"]] == [1, 6]
    assert full["stream"] == stream["stream"]
    body = await call(api_service, "GET", f"{STREAMS}?sort_column=id&sort_order=desc")
    assert faults(body, contract_shapes.LIST_STREAMS) == []
    uuid = full["stream"].removeprefix(f"{full['hash']}_")
    assert body["data"][0] == {**subset(full, contract_shapes.STREAM_ITEM), "stream": uuid}
    assert faults(await call(api_service, "GET", path), {"data": contract_shapes.STREAM}) == []


@mostly_on("sqlite")
async def test_labels_have_their_documented_forms(api_service: ApiService) -> None:
    tag = await add_label(api_service, "tag", "Old")
    await add_label(api_service, "category", "Chess")
    body = await call(api_service, "PUT", f"/api/tags/{tag}", {"name": "Újabb"})
    assert faults(body, contract_shapes.EDIT_TAG) == []
    edited = {"id": tag, "name": "Újabb", "active": True}
    assert body == {"message": "Tag updated.", "tag": edited}
    body = await call(api_service, "GET", "/api/projects/1/tags")
    assert faults(body, contract_shapes.LIST_LABELS) == []
    assert body["data"] == [edited]
    body = await call(api_service, "GET", "/api/projects/1/categories")
    assert faults(body, contract_shapes.LIST_LABELS) == []
    assert [(each["name"], each["active"]) for each in body["data"]] == [("Chess", True)]


LONG = ("x", "é", "日", "\U0001d518", "👩", "ﷺ", "'", "\\", "%")


@mostly_on("sqlite")
@pytest.mark.parametrize("kind", ["video", "stream"])
async def test_texts_hold_any_characters_up_to_the_stated_lengths(
    api_service: ApiService, kind: str
) -> None:
    record = (await upload(api_service))["video"] if kind == "video" else await api_service.add()
    path = f"/api/{kind}s/{record['id']}"
    texts: Json = {}
    for letter in LONG:
        texts = {"title": letter * 255, "description": "\n".join([letter * 4999] * 2) + letter}
        assert len(texts["description"]) == 10_000
        assert subset((await call(api_service, "PUT", path, texts))[kind], texts) == texts
        assert subset((await call(api_service, "GET", path))["data"], texts) == texts
        for key in texts:
            longer = {"description": "New", "title": "New", key: texts[key] + letter}
            refused = await call(api_service, "PUT", path, longer, 422)
            assert set(refused["errors"]) == {key}
    faulty: tuple[tuple[str, Any], ...] = (  # Any: of every type
        ("title", "a\x00"), ("title", "a\nb"), ("title", 1), ("title", ["x"]), ("title", True),
        ("description", "a\x00"), ("description", 1), ("description", {}), ("category", "1"),
        ("category", True), ("category", 1.5), ("countries", "RO"), ("countries", [None]),
        ("countries", {"RO": 1}), ("tags", "x"), ("tags", [1]), ("tags", [{}]),
        ("tags", [{"name": ""}]), ("tags", [{"name": None}]), ("tags", [{"id": "1"}]),
        ("tags", [{"name": "a", "unheard": 1}]), ("tags", [{"name": "x" * 256}]),
    )  # fmt: skip
    for key, wrong in faulty:
        refused = await call(api_service, "PUT", path, {"title": "New", key: wrong}, 422)
        assert contract_shapes.refusal_faults(refused) == []
        assert set(refused["errors"]) == {key}, wrong
    assert subset((await call(api_service, "GET", path))["data"], texts) == texts


@mostly_on("sqlite")
async def test_every_listed_country_can_be_set_and_is_shown_the_same_way(
    api_service: ApiService,
) -> None:
    body = await call(api_service, "GET", "/api/countries")
    assert faults(body, contract_shapes.LIST_COUNTRIES) == []
    names = {each["id"]: each["name"] for each in body["data"]}
    assert len(names) == len(body["data"]) >= 249
    assert (names[642], names[276], names[4]) == ("Romania", "Germany", "Afghanistan")
    path = f"/api/streams/{(await api_service.add())['id']}"
    by_number = await call(api_service, "PUT", path, {"countries": list(names)})
    assert faults(by_number, contract_shapes.CHANGE_STREAM) == []
    countries = by_number["stream"]["countries"]
    assert [(each["id"], each["name"]) for each in countries] == list(names.items())
    codes = [each["code"] for each in countries]
    assert len(set(codes)) == len(codes)
    by_code = await call(api_service, "PUT", path, {"countries": [code.lower() for code in codes]})
    assert by_code["stream"]["countries"] == countries


@mostly_on("sqlite")
@pytest.mark.parametrize("kind", ["video", "stream"])
async def test_an_edit_changes_what_is_sent_and_null_clears(
    api_service: ApiService, kind: str
) -> None:
    record = (await upload(api_service))["video"] if kind == "video" else await api_service.add()
    path = f"/api/{kind}s/{record['id']}"
    edit, expected = await full_edit(api_service)
    before = (await call(api_service, "PUT", path, edit))[kind]
    # An edit of one key does not change the others.
    changes: tuple[tuple[Json, str, object], ...] = (
        ({}, "title", expected["title"]),
        ({"title": "Other"}, "title", "Other"),
        ({"description": "x"}, "description", "x"),
        ({"description": None}, "description", ""),
        ({"description": ""}, "description", ""),
        ({"category": None}, "category", None),
        ({"countries": ["AT"]}, "countries", [{"id": 40, "code": "AT", "name": "Austria"}]),
        ({"countries": []}, "countries", []),
        ({"countries": None}, "countries", []),
        ({"tags": before["tags"][1:]}, "tags", before["tags"][1:]),
        ({"tags": []}, "tags", []),
        ({"tags": None}, "tags", []),
    )
    for body, key, value in changes:
        changed = (await call(api_service, "PUT", path, body))[kind]
        assert changed[key] == value, body
        other_keys = changed.keys() - {key, "embed"}
        assert subset(changed, dict.fromkeys(other_keys)) == subset(
            before, dict.fromkeys(other_keys)
        ), body
        restored = (await call(api_service, "PUT", path, edit))[kind]
        assert subset(restored, expected) == expected
    if kind == "video":
        for nothing in (None, "", "  "):
            assert (await call(api_service, "PUT", path, {"title": nothing}))[kind][
                "title"
            ] == "clip"
            await call(api_service, "PUT", path, {"title": "x"})
    else:
        for nothing in (None, "", "  "):
            refused = await call(api_service, "PUT", path, {"title": nothing}, 422)
            assert set(refused["errors"]) == {"title"}


@mostly_on("sqlite")
async def test_an_upload_without_a_title_is_named_by_its_file(api_service: ApiService) -> None:
    for texts in ({}, {"title": ""}, {"title": "  "}):
        video = (await upload(api_service, name="My film.final.mp4", texts=texts))["video"]
        assert (video["title"], video["name"]) == ("My film.final", "my-film-final")
    video = (await upload(api_service, name="影.mp4", texts={"title": "Own"}))["video"]
    assert (video["title"], video["name"]) == ("Own", "video")
    video = (await call(api_service, "PUT", f"/api/videos/{video['id']}", {"title": None}))["video"]
    assert video["title"] == "影"


@mostly_on("sqlite")
@pytest.mark.parametrize("kind", ["video", "stream"])
async def test_tags_link_by_number_or_name_and_make_no_twins(
    api_service: ApiService, kind: str
) -> None:
    record = (await upload(api_service))["video"] if kind == "video" else await api_service.add()
    path = f"/api/{kind}s/{record['id']}"
    old = await add_label(api_service, "tag", "Șah")
    body = await call(
        api_service, "PUT", path,
        {"tags": [{"name": "șah"}, {"id": old}, {"name": "B"}, {"id": old, "name": "Other"}]},
    )  # fmt: skip
    tags = body[kind]["tags"]
    # A record's tags come in the order of their names.
    assert tags == [{"id": tags[0]["id"], "name": "B"}, {"id": old, "name": "Șah"}]
    assert (await call(api_service, "PUT", path, {"tags": tags}))[kind]["tags"] == tags
    listed = await call(api_service, "GET", "/api/projects/1/tags?sort_column=name")
    assert listed["data"] == [{**tag, "active": True} for tag in tags]
    # A renamed tag is renamed in its records; a deleted one is removed from them.
    await call(api_service, "PUT", f"/api/tags/{old}", {"name": "Chess"})
    body = await call(api_service, "GET", path)
    assert body["data"]["tags"] == [tags[0], {"id": old, "name": "Chess"}]
    deleted = await api_service.client.delete(f"/api/tags/{old}", headers=api_service.owner)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await call(api_service, "GET", path))["data"]["tags"] == tags[:1]


@mostly_on("sqlite")
@pytest.mark.parametrize(
    ("kind", "plural", "noun"), [("tag", "tags", "tag"), ("category", "categories", "category")]
)
async def test_a_taken_name_is_a_conflict(
    api_service: ApiService, kind: str, plural: str, noun: str
) -> None:
    first = await add_label(api_service, kind, "Șah")
    second = await add_label(api_service, kind, "Go")
    path = f"/api/{plural}/{second}"
    for name in ("Șah", "șAH", " Șah "):
        refused = await call(api_service, "PUT", path, {"name": name, "active": False}, 409)
        assert contract_shapes.refusal_faults(refused) == []
        assert set(refused["errors"]) == {"name"}
        await call(api_service, "POST", f"/api/projects/1/{plural}", {"name": name}, 409)
    listed = await call(api_service, "GET", f"/api/projects/1/{plural}?sort_column=id")
    assert [(each["id"], each["name"], each["active"]) for each in listed["data"]] == [
        (first, "Șah", True), (second, "Go", True),
    ]  # fmt: skip
    # A tag's own name in another case is no conflict; other projects have no conflicts.
    assert (await call(api_service, "PUT", path, {"name": "GO"}))[noun]["name"] == "GO"
    other = (await call(api_service, "POST", "/api/projects", {"name": "Other"}, 201))["project"]
    assert await add_label(api_service, kind, "Șah", other["key"]) not in (first, second)
