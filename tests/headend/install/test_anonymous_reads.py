"""What anyone gets from real servers, and what is no answer."""

import functools
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headend.install.anonymous_reads import lists_objects, read_beginning
from storage.objects.base import StoreFailed
from tests.support.free_ports import free_port

pytestmark = pytest.mark.anyio

LIST = b"<?xml version='1.0'?><ListBucketResult></ListBucketResult>"


class Handler(BaseHTTPRequestHandler):
    """Answers as the path says."""

    def __init__(self, asked: list[str], *arguments: object) -> None:
        self.asked = asked
        super().__init__(*arguments)  # pyright: ignore[reportArgumentType]  # the server's own

    def do_GET(self) -> None:
        self.asked.append(self.path)
        path, _, query = self.path.partition("?")
        name = path.rpartition("/")[2]
        body = LIST if path == "/bucket" and "list-type=2" in query else b"x" * 5000
        self.send_response(int(name) if name.isdecimal() else 200 if name else 404)
        if name == "301":
            self.send_header("Location", "/film")
        if name == "302":
            self.send_header("Location", "/302")
        self.end_headers()  # without a length, as some CDNs send what they compress
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as inherited
        """Log nothing."""


@pytest.fixture
def server() -> Generator[tuple[str, list[str]]]:
    asked: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, asked)) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}", asked
        web.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("film", 1024), ("301", 1024), ("403", None), ("404", None), ("405", None)],
)
async def test_what_is_given_is_read_and_what_is_refused_is_none(
    server: tuple[str, list[str]], name: str, expected: int | None
) -> None:
    data = await read_beginning(f"{server[0]}/{name}")
    assert (None if data is None else len(data)) == expected


@pytest.mark.parametrize("name", ["302", "429", "500", "503"])
async def test_a_failure_is_no_refusal_and_its_message_does_not_show_the_address(
    server: tuple[str, list[str]], name: str
) -> None:
    with pytest.raises(StoreFailed) as failure:
        await read_beginning(f"{server[0]}/{name}?signature=SECRET")
    assert server[0] in str(failure.value)
    assert "SECRET" not in str(failure.value)


async def test_a_server_that_is_not_there_does_not_answer() -> None:
    with pytest.raises(StoreFailed, match="does not answer"):
        await read_beginning(f"http://127.0.0.1:{free_port()}/film")


async def test_lists_are_looked_for_at_every_part_of_an_address(
    server: tuple[str, list[str]],
) -> None:
    base, asked = server
    assert await lists_objects(f"{base}/bucket/some/prefix", "some/prefix/")
    query = "?list-type=2&max-keys=1&prefix=some/prefix/"
    places = ["/bucket/some/prefix", "/bucket/some", "/bucket"]
    assert asked == [f"{place}{query}" for place in places]
    assert not await lists_objects(base, "")
