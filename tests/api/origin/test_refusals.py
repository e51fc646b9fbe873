"""Refusals of the origin: any player's page may read them, and no cache keeps them."""

import pytest

from api.http.response import HttpResponse
from api.origin.directives import BadDirective
from api.origin.refusals import (
    BLOCKED,
    FAILED,
    NOT_ALLOWED,
    NOT_FOUND,
    TRY_AGAIN,
    bad_request,
)


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (bad_request(BadDirective("a part that is too far ahead")), 400),
        (NOT_FOUND, 404),
        (NOT_ALLOWED, 405),
        (BLOCKED, 451),
        (FAILED, 500),
        (TRY_AGAIN, 503),
    ],
)
def test_a_refusal_is_readable_everywhere_and_kept_nowhere(
    refusal: HttpResponse, status: int
) -> None:
    headers = dict(refusal.headers)
    assert refusal.status == status
    assert headers[b"access-control-allow-origin"] == b"*"
    assert headers[b"cache-control"].endswith(b"no-store")
    assert headers[b"content-length"] == b"%d" % len(refusal.body)


def test_a_bad_request_says_why() -> None:
    assert (
        bad_request(BadDirective("_HLS_msn is not a number")).body == b"_HLS_msn is not a number\n"
    )
