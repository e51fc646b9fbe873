"""Responses as values, and how they are sent."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.types import HTTPReceiveMessage

from api.http.open_file import open_file
from api.http.response import (
    PREFLIGHT,
    HttpRequest,
    HttpResponse,
    PendingResponse,
    Representation,
    cross_origin_response,
    json_response,
    media_headers,
    new_response,
    respond,
    send_page,
    send_response,
    text_response,
    wait_for,
)
from tests.support.waiting import until

BODY = bytes(range(100))
TAG = '"abc"'


def representation(body: bytes = BODY) -> Representation:
    headers = media_headers("video/mp4", "no-store", {"vary": "Accept-Encoding"})
    return Representation(body=body, headers=headers, tag=TAG)


def header(response: HttpResponse, name: str) -> str | None:
    values = [value.decode() for each, value in response.headers if each == name.encode()]
    assert len(values) <= 1
    return values[0] if values else None


def get(method: str = "GET", **headers: str) -> HttpRequest:
    return HttpRequest(method, {name.replace("_", "-"): text for name, text in headers.items()})


def send_and_record(response: HttpResponse, method: str) -> list[Any]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(send_response(response, method, send))
    return messages


def test_a_whole_representation_has_its_tag_and_its_length() -> None:
    response = respond(get(), representation())
    assert (response.status, response.body) == (200, BODY)
    assert header(response, "etag") == TAG
    assert header(response, "content-length") == "100"
    assert header(response, "accept-ranges") == "bytes"
    assert header(response, "vary") == "Accept-Encoding"


@pytest.mark.parametrize("tags", ["*", TAG, f'"x", W/{TAG}'])
def test_a_current_tag_is_answered_with_304(tags: str) -> None:
    response = respond(get(if_none_match=tags), representation())
    assert (response.status, response.body) == (304, b"")
    assert header(response, "content-length") is None


def test_a_range_is_part_of_the_body() -> None:
    response = respond(get(range="bytes=10-19"), representation())
    assert (response.status, response.body) == (206, BODY[10:20])
    assert header(response, "content-range") == "bytes 10-19/100"
    assert header(response, "content-length") == "10"


def test_a_range_of_another_version_is_answered_with_the_whole() -> None:
    response = respond(get(range="bytes=10-19", if_range='"old"'), representation())
    assert (response.status, response.body) == (200, BODY)
    assert respond(get(range="bytes=10-19", if_range=TAG), representation()).status == 206


def test_a_range_behind_the_end_is_refused_with_the_size() -> None:
    response = respond(get(range="bytes=100-"), representation())
    assert (response.status, response.body) == (416, b"")
    assert header(response, "content-range") == "bytes */100"


def test_a_range_is_ignored_where_the_headers_announce_none() -> None:
    headers = media_headers("text/plain", "no-store", {}, has_ranges=False)
    whole = Representation(body=BODY, headers=headers, tag=TAG)
    for wanted in ("bytes=10-19", "bytes=100-"):
        response = respond(get(range=wanted), whole)
        assert (response.status, response.body) == (200, BODY)
        assert header(response, "accept-ranges") is None
        assert header(response, "content-range") is None


def test_a_file_is_handed_over_or_closed(tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(BODY)
    for request, has_file in ((get(), True), (get("HEAD"), False), (get(if_none_match="*"), False)):
        file = open_file(path)
        response = respond(request, Representation(body=file, headers=(), tag=TAG))
        assert (response.file is file) is has_file
        if has_file:
            assert (response.start, response.stop) == (0, 100)
            messages = send_and_record(response, "GET")
            assert b"".join(each.get("body", b"") for each in messages) == BODY
        with pytest.raises(OSError, match="descriptor"):
            file.close()


def test_head_is_sent_with_the_length_and_without_the_body() -> None:
    start, end = send_and_record(new_response(200, {"X-A": "b"}, b"hello"), "HEAD")
    assert start["headers"] == [(b"x-a", b"b"), (b"content-length", b"5")]
    assert end == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_that_allows_no_body_has_no_length(status: int) -> None:
    assert header(new_response(status, {}), "content-length") is None


def test_text_and_json_and_what_every_origin_may_read() -> None:
    assert text_response(404, "not found").body == b"not found\n"
    assert json_response(200, {"a": 1}, {}).body == b'{"a":1}'
    assert header(json_response(200, 1, {}), "access-control-allow-origin") == "*"
    assert header(cross_origin_response(200, {}), "access-control-allow-origin") == "*"
    assert header(text_response(200, ""), "access-control-allow-origin") is None


@pytest.mark.parametrize("status", [400, 404, 405, 410, 414, 416, 451, 500, 501, 503])
def test_an_error_is_not_cached_unless_it_has_a_rule_of_its_own(status: int) -> None:
    """Caches keep some of them by themselves, or by their own rule for what is below a path."""
    for response in (
        text_response(status, "no"),
        json_response(status, {}, {}),
        cross_origin_response(status, {}),
        new_response(status, {"Content-Type": "text/html"}),
    ):
        assert header(response, "cache-control") == "no-store"
    own = new_response(status, {"Cache-Control": "private, no-store"})
    assert [text for name, text in own.headers if name == b"cache-control"] == [
        b"private, no-store"
    ]
    assert header(new_response(200, {}), "cache-control") is None


# What players send: hls.js and Shaka with CMCD as headers, receivers of Chromecast, Safari.
PLAYERS = (
    "CMCD-Object", "CMCD-Request", "CMCD-Session", "CMCD-Status", "Cache-Control", "Content-Type",
    "Accept-Encoding", "Range", "X-Playback-Session-Id", "Authorization", "If-None-Match",
)  # fmt: skip


def test_a_preflight_allows_every_header_and_names_those_of_players() -> None:
    allowed = str(header(PREFLIGHT, "access-control-allow-headers")).lower().split(", ")
    # Browsers that do not know `*` read names only, and it never stands for Authorization.
    assert "*" in allowed
    assert {each.lower() for each in PLAYERS} <= set(allowed)
    assert PREFLIGHT.status == 204
    assert header(PREFLIGHT, "access-control-allow-origin") == "*"
    assert header(PREFLIGHT, "access-control-allow-credentials") is None
    assert header(PREFLIGHT, "access-control-allow-methods") == "GET, HEAD, OPTIONS"


async def sent_page(method: str, response: HttpResponse) -> dict[str, str]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await send_page(response, HttpRequest(method, {}), send)
    headers = {name.decode(): text.decode() for name, text in messages[0]["headers"]}
    return {"status": str(messages[0]["status"]), **headers}


@pytest.mark.parametrize("status", [200, 404, 451])
async def test_only_what_every_origin_may_read_answers_a_preflight(status: int) -> None:
    for response in (cross_origin_response(status, {}), json_response(status, {}, {})):
        preflight = await sent_page("OPTIONS", response)
        assert preflight["status"] == "204"
        assert preflight["access-control-allow-headers"].startswith("*")
        other = await sent_page("DELETE", response)
        assert (other["status"], other["allow"]) == ("405", "GET, HEAD, OPTIONS")
        assert (other["access-control-allow-origin"], other["cache-control"]) == ("*", "no-store")
    page = await sent_page("OPTIONS", new_response(status, {}))
    assert (page["status"], page["allow"], page["cache-control"]) == (
        "405",
        "GET, HEAD",
        "no-store",
    )
    assert not [name for name in page if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("request_", "first"),
    [
        (HttpRequest("POST", {}), {"type": "http.response.start", "status": 405}),
        (HttpRequest("GET", {}), {"type": "http.response.start", "status": 200}),
        (HttpRequest("", {}), {"type": "websocket.close", "code": 1000, "reason": None}),
    ],
)
async def test_a_page_is_for_get_and_head(request_: HttpRequest, first: dict[str, Any]) -> None:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await send_page(text_response(200, "page"), request_, send)
    assert messages[0].items() >= first.items()


def test_of_a_repeated_header_the_last_counts_and_irrelevant_ones_are_dropped() -> None:
    headers = [(b"range", b"bytes=0-1"), (b"cookie", b"x"), (b"range", b"bytes=2-3")]
    assert HttpRequest.of("GET", headers) == HttpRequest("GET", {"range": "bytes=2-3"})
    assert msgspec.structs.asdict(HttpRequest.of("GET", []))["headers"] == {}


class ManualResponse(PendingResponse):
    """A response that the test delivers."""

    callback: Callable[[HttpResponse], None] | None = None
    cancelled = 0

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        self.callback = callback

    def cancel(self) -> None:
        self.cancelled += 1

    def deliver(self, response: HttpResponse) -> None:
        assert self.callback is not None
        self.callback(response)


async def stay() -> HTTPReceiveMessage:
    """Receive nothing: the client stays."""
    return await asyncio.get_running_loop().create_future()


async def test_a_client_that_leaves_ends_the_wait() -> None:
    messages: list[HTTPReceiveMessage] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"", "more_body": False},
    ]

    async def leave() -> HTTPReceiveMessage:
        await asyncio.sleep(0)
        return messages.pop()

    later = ManualResponse()
    assert await wait_for(later, leave) is None
    assert (later.cancelled, messages) == (1, [])


async def test_a_pending_response_can_be_waited_for() -> None:
    later = ManualResponse()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for(later, stay))
        await until(lambda: later.callback is not None)
        later.deliver(text_response(200, "ready"))
    response = waiting.result()
    assert response is not None
    assert (response.body, later.cancelled) == (b"ready\n", 0)


async def test_a_cancelled_wait_cancels_the_response() -> None:
    later = ManualResponse()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for(later, stay))
        await until(lambda: later.callback is not None)
        waiting.cancel()
    assert (waiting.cancelled(), later.cancelled) == (True, 1)


@pytest.mark.parametrize("first", ["delivery", "cancellation"])
async def test_a_response_that_comes_with_the_cancellation_is_closed(
    tmp_path: Path, first: str
) -> None:
    (tmp_path / "part").write_bytes(BODY)

    later = ManualResponse()
    file = open_file(tmp_path / "part")
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for(later, stay))
        await until(lambda: later.callback is not None)
        if first == "cancellation":
            waiting.cancel()
        later.deliver(HttpResponse(200, (), b"", file, 0, len(BODY)))
        if first == "delivery":
            waiting.cancel()
    assert waiting.cancelled()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.handle)
