"""The bytes of an answer after which a connection is closed."""

import socket
from http import HTTPStatus
from http.client import HTTPResponse

import pytest

from headend.http.closing_answer import ClosingAnswer


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("Too many: try again later.", "retry-after: 5\r\n", id="with a field"),
        pytest.param("Zürich", "", id="bytes are counted, not characters"),
    ],
)
def test_a_client_reads_it_as_it_is_meant(text: str, fields: str) -> None:
    answer = ClosingAnswer(HTTPStatus.SERVICE_UNAVAILABLE, text, fields)
    ours, theirs = socket.socketpair()
    with ours, theirs, HTTPResponse(theirs) as read:
        ours.sendall(answer.head + answer.body + b"more")
        read.begin()
        assert (read.status, read.reason) == (503, "Service Unavailable")
        assert read.read().decode() == text
    names = {name: value for name, value in read.getheaders() if name not in {"content-length"}}
    assert names == {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-store",
        "connection": "close",
        **({"retry-after": "5"} if fields else {}),
    }
