"""Viewers: the headers of a request that may give one more than others get."""

import pytest

from api.origin.viewer import NOBODY, Viewer


@pytest.mark.parametrize(
    ("headers", "authorization", "cookie"),
    [
        ([], None, None),
        ([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")], "Bearer b", None),
        ([(b"cookie", b"a=1"), (b"cookie", b"b=2")], None, "a=1; b=2"),
        ([(b"cookie", b"a=1"), (b"sec-fetch-site", b"same-origin")], None, "a=1"),
        ([(b"cookie", b"a=1"), (b"sec-fetch-site", b"cross-site")], None, None),
    ],
)
def test_a_viewer_has_the_token_and_the_cookies_of_the_request(
    headers: list[tuple[bytes, bytes]], authorization: str | None, cookie: str | None
) -> None:
    viewer = Viewer.from_scope({"client": ("192.0.2.1", 4000), "headers": headers})
    assert viewer.peer == "192.0.2.1"
    assert (viewer.authorization, viewer.cookie) == (authorization, cookie)


def test_nobody_has_neither_address_nor_headers() -> None:
    assert Viewer.from_scope({"client": None, "headers": ()}) == NOBODY
