"""Which tokens may call which operations."""

import pytest

from api.http.auth import bearer_token, is_owner, is_signed_in_owner
from api.http.browser_sessions import BrowserSessions, SessionCookie
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, STREAMS, ApiService

TITLE = {"title": "x"}


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER   abc ", "abc"),
        (None, None),
        ("", None),
        ("abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic abc", None),
        ("Bearer" + "x" * 20, None),
        ("Bearer " + "x" * 513, None),
    ],
)
def test_a_token_is_read_from_its_header(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("Bearer headend_" + "A" * 43, id="unknown"),
        pytest.param("Basic b3duZXI6eA==", id="another scheme"),
        pytest.param("Bearer \xe9\xff", id="no ASCII"),
    ],
)
async def test_no_or_a_bad_token_is_401(
    api_service: ApiService, method: str, authorization: str | None
) -> None:
    # As bytes: headers carry any, and are read as Latin-1.
    headers = [] if authorization is None else [(b"Authorization", authorization.encode("latin-1"))]
    answer = await api_service.client.request(method, STREAMS, headers=headers)
    assert answer.status_code == 401
    assert set(answer.json()) == {"message"}
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert ("invalid_token" in challenge) == (authorization is not None)


async def test_refusals_without_a_token_do_not_reveal_what_exists(api_service: ApiService) -> None:
    existing = await api_service.client.get(STREAMS)
    missing = await api_service.client.get("/api/projects/99/streams")
    wrong = await api_service.client.post(
        STREAMS, content=b"{", headers={"Content-Type": "text/plain"}
    )
    assert existing.status_code == missing.status_code == wrong.status_code == 401
    assert existing.content == missing.content == wrong.content


async def test_what_each_kind_of_token_may_do(api_service: ApiService) -> None:
    mine = await api_service.catalog.projects.add("Mine", Change(NOW_US))
    path = f"/api/projects/{mine.id}/streams"
    read_mine = await api_service.headers_of("reader", mine.id, write=False)
    write_mine = await api_service.headers_of("writer", mine.id, write=True)
    read_all = await api_service.headers_of("reader of all", None, write=False)
    expected = {
        # name: (read mine, write mine, read the other, write the other)
        "reader": (read_mine, (200, 403, 404, 403)),
        "writer": (write_mine, (200, 201, 404, 404)),
        "reader of all": (read_all, (200, 403, 200, 403)),
        "owner": (api_service.owner, (200, 201, 200, 201)),
    }
    for name, (headers, statuses) in expected.items():
        answers = [
            await api_service.client.get(path, headers=headers),
            await api_service.client.post(path, headers=headers, json=TITLE),
            await api_service.client.get(STREAMS, headers=headers),
            await api_service.client.post(STREAMS, headers=headers, json=TITLE),
        ]
        assert tuple(answer.status_code for answer in answers) == statuses, name


async def test_addresses_of_another_project_answer_like_missing_ones(
    api_service: ApiService,
) -> None:
    mine = await api_service.catalog.projects.add("Mine", Change(NOW_US))
    headers = await api_service.headers_of("writer", mine.id, write=True)
    foreign = await api_service.client.post(STREAMS, headers=headers, json=TITLE)
    missing = await api_service.client.post("/api/projects/99/streams", headers=headers, json=TITLE)
    assert (foreign.status_code, foreign.content) == (missing.status_code, missing.content)
    assert (await api_service.listed())["meta"]["total"] == 1


async def test_a_revoked_token_is_401_at_once(api_service: ApiService) -> None:
    headers = await api_service.headers_of("guest", None, write=False)
    assert (await api_service.client.get(STREAMS, headers=headers)).status_code == 200
    (_, guest) = await api_service.catalog.tokens.find_all()
    await api_service.catalog.tokens.revoke(guest.id, Change(NOW_US))
    assert (await api_service.client.get(STREAMS, headers=headers)).status_code == 401


async def test_the_owner_of_a_stream_is_told_from_a_viewer(api_service: ApiService) -> None:
    stream = (await api_service.add())["hash"]
    mine = await api_service.catalog.projects.add("Mine", Change(NOW_US))
    foreign = await api_service.headers_of("foreign", mine.id, write=True)
    reader = await api_service.headers_of("reader", 1, write=False)
    catalog = api_service.catalog
    assert await is_owner(catalog, api_service.owner["Authorization"], stream)
    assert await is_owner(catalog, reader["Authorization"], stream)
    assert not await is_owner(catalog, foreign["Authorization"], stream)
    assert not await is_owner(catalog, "Bearer nonsense", stream)
    assert not await is_owner(catalog, None, stream)
    assert not await is_owner(catalog, api_service.owner["Authorization"], "unknown")


async def test_a_signed_in_owner_of_a_stream_is_told_from_a_viewer(api_service: ApiService) -> None:
    stream = (await api_service.add())["hash"]
    mine = await api_service.catalog.projects.add("Mine", Change(NOW_US))
    foreign, _ = await api_service.catalog.tokens.add(
        "foreign", mine.id, Change(NOW_US), write=True
    )
    catalog = api_service.catalog
    sessions = BrowserSessions(catalog, SessionCookie(secure=False), lambda: NOW_US)
    for token, expected in ((1, True), (foreign.id, False)):
        cookie = f"a=b; headend_session={await catalog.sessions.add(token, NOW_US)}"
        assert await is_signed_in_owner(catalog, sessions, cookie, stream) is expected
        assert not await is_signed_in_owner(catalog, sessions, cookie, "unknown")
    assert not await is_signed_in_owner(catalog, sessions, "headend_session=unknown", stream)
    assert not await is_signed_in_owner(catalog, sessions, None, stream)
