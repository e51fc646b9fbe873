"""Reading JSON bodies, and the refusals of invalid ones."""

import asyncio
import tracemalloc
from http import HTTPStatus
from typing import Any

import pytest
from litestar import Litestar, Request, post

from api.http.errors import ApiError
from api.http.json_body import MAX_BODY, parse_fields, read_raw_body
from api.schemas.common import StreamAddition
from tests.support.api.application import STREAMS, ApiService

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b'{"title":"x"}', 201, id="right"),
        pytest.param(b' \n{"title" : "x"}\n', 201, id="with blanks"),
        pytest.param(b"", 422, id="empty"),
        pytest.param(b"{", 400, id="cut off"),
        pytest.param(b"title=x", 400, id="a form"),
        pytest.param(b'{"title":"x"} {}', 400, id="two"),
        pytest.param(b'{"title":"\xff"}', 400, id="no UTF-8"),
        pytest.param(b'{"title":"\\ud800"}', 400, id="half a surrogate pair"),
        pytest.param(b"[" * 200_000, 400, id="bottomless"),
        pytest.param(b"[]", 422, id="a list"),
        pytest.param(b"null", 422, id="null"),
        pytest.param(b'"x"', 422, id="a string"),
        pytest.param(b'{"title":"' + b"x" * (1 << 20) + b'"}', 413, id="too large"),
        pytest.param(b'{"title":"x"}' + b" " * MAX_BODY, 413, id="too large by a little"),
    ],
)
async def test_each_kind_of_body_has_its_answer(
    api_service: ApiService, body: bytes, status: int
) -> None:
    headers = {**api_service.owner, **JSON}
    answer = await api_service.client.post(STREAMS, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    if status in (400, 413):
        assert set(answer.json()) == {"message"}


async def test_reading_a_slow_body_times_out() -> None:
    errors: list[ApiError] = []

    @post("/", request_max_body_size=1000)
    async def read(request: Request[Any, Any, Any]) -> None:
        try:
            await read_raw_body(request, seconds=0.1)
        except ApiError as error:
            errors.append(error)

    async def drip() -> Any:  # ASGI's own map
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def ignore_answer(_message: object) -> None:
        pass

    scope: Any = {
        "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "headers": [],
        "query_string": b"", "root_path": "", "client": None, "server": None, "scheme": "http",
    }  # fmt: skip
    await Litestar([read], logging_config=None)(scope, drip, ignore_answer)
    assert [error.status_code for error in errors] == [HTTPStatus.REQUEST_TIMEOUT]


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("APPLICATION/JSON", 201),
        (None, 201),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain", 415),
        ("application/xml", 415),
        ("application/msgpack", 415),
        ("nonsense", 415),
    ],
)
async def test_only_json_bodies_are_accepted(
    api_service: ApiService, content_type: str | None, status: int
) -> None:
    headers = {**api_service.owner} if content_type is None else {
        **api_service.owner, "Content-Type": content_type
    }  # fmt: skip
    answer = await api_service.client.post(STREAMS, content=b'{"title":"x"}', headers=headers)
    assert answer.status_code == status
    assert set(answer.json()) == ({"message", "stream"} if status == 201 else {"message"})


async def test_every_fault_is_named_at_once(api_service: ApiService) -> None:
    body = {"title": 5, "colour": "red", "x": 1}
    answer = await api_service.client.post(STREAMS, json=body, headers=api_service.owner)
    assert answer.json() == {
        "message": "The request is not valid: see title, colour, x.",
        "errors": {
            "title": ["The title must be a string."],
            "colour": ["This key is not known here."],
            "x": ["This key is not known here."],
        },
    }


async def test_a_flood_of_wrong_keys_is_not_echoed_whole(api_service: ApiService) -> None:
    body = {f"{number}" + "k" * 900: 1 for number in range(250)}
    answer = await api_service.client.post(STREAMS, json=body, headers=api_service.owner)
    assert answer.status_code == 422
    assert len(answer.content) < 30_000


def test_a_flood_of_unknown_keys_costs_no_memory() -> None:
    body: dict[str, Any] = {f"key {number}": None for number in range(80_000)}
    tracemalloc.start()
    try:
        with pytest.raises(ApiError) as caught:
            parse_fields(body, StreamAddition)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100_000
    assert "key 0" in (caught.value.errors or {})


async def test_the_longest_description_fits(api_service: ApiService) -> None:
    number = (await api_service.add())["id"]
    text = "\N{MUSICAL SYMBOL G CLEF}" * 10_000  # each is 12 bytes of JSON
    answer = await api_service.client.put(
        f"/api/streams/{number}", json={"description": text}, headers=api_service.owner
    )
    assert answer.status_code == 200
