"""Which tokens may subscribe to private channels."""

import hashlib
import hmac

import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US
from tests.support.api.console_client import COOKIE, SAME_ORIGIN
from tests.support.api.pusher_client import PusherService


def auth_of(pusher_service: PusherService, channel: str, grant: str = "1") -> dict[str, str]:
    """Return the signature for a client: the protocol's, over the token's number as well."""
    text = f"12.34:{channel}:{grant}".encode()
    signed = hmac.new(pusher_service.secret.encode(), text, hashlib.sha256).hexdigest()
    return {"auth": f"{pusher_service.key}:{signed}:{grant}"}


def channels(pusher_service: PusherService) -> list[str]:
    names = (f"stream.{pusher_service.hash}", "project.1", f"project.{pusher_service.project_key}")
    return [f"private-{name}" for name in names]


@pytest.mark.parametrize("path", ["/broadcasting/auth", "/pusher/auth"])
async def test_a_token_opens_the_channels_of_what_it_reaches(
    pusher_service: PusherService, path: str
) -> None:
    for channel in channels(pusher_service):
        answer = await pusher_service.authorise(channel, path=path)
        assert (answer.status_code, answer.json()) == (200, auth_of(pusher_service, channel))
        assert answer.headers["cache-control"] == "no-store"


async def test_a_token_that_may_read_one_project_opens_its_channels(
    pusher_service: PusherService,
) -> None:
    _, token = await pusher_service.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
    for channel in channels(pusher_service):
        assert (await pusher_service.authorise(channel, token=token)).status_code == 200


async def test_a_token_of_another_project_opens_none(pusher_service: PusherService) -> None:
    other = await pusher_service.catalog.projects.add("other", Change(NOW_US))
    _, token = await pusher_service.catalog.tokens.add(
        "other's", other.id, Change(NOW_US), write=True
    )
    for channel in channels(pusher_service):
        answer = await pusher_service.authorise(channel, token=token)
        assert answer.status_code == 403
        assert set(answer.json()) == {"message"}
    assert (
        await pusher_service.authorise(f"private-project.{other.id}", token=token)
    ).status_code == 200


async def test_a_signed_in_browser_opens_them_from_our_own_pages_alone(
    pusher_service: PusherService,
) -> None:
    secret = await pusher_service.catalog.sessions.add(1, NOW_US)
    cookie = {"Cookie": f"{COOKIE}={secret}"}
    channel = channels(pusher_service)[0]
    form = {"socket_id": "12.34", "channel_name": channel}
    ours = {**SAME_ORIGIN, "X-Headend-Console": "1"}
    answer = await pusher_service.client.post(
        "/broadcasting/auth", data=form, headers={**cookie, **ours}
    )
    grant = f"1-{hashlib.sha256(secret.encode()).hexdigest()}"
    assert (answer.status_code, answer.json()) == (200, auth_of(pusher_service, channel, grant))
    for headers in ({}, SAME_ORIGIN, {**ours, "Sec-Fetch-Site": "same-site"}):
        answer = await pusher_service.client.post(
            "/broadcasting/auth", data=form, headers={**cookie, **headers}
        )
        assert answer.status_code == 403
    await pusher_service.catalog.tokens.revoke(1, Change(NOW_US))
    answer = await pusher_service.client.post(
        "/broadcasting/auth", data=form, headers={**cookie, **ours}
    )
    assert answer.status_code == 401


async def test_without_a_valid_token_no_channel_opens(
    pusher_service: PusherService,
) -> None:
    for token in ("", "headend_wrong"):
        answer = await pusher_service.authorise(channels(pusher_service)[0], token=token)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


STRANGE = [
    "stream.x", "private-stream.zzzzzzzzzzzz", "private-video.zzzzzzzzzzzz", "private-project.99",
    "private-project.0x1", "private-other.1", "private-", "presence-project.1", "",
    "private-project.1 ", "private-project.9999999999999999999", "private-encrypted-project.1",
]  # fmt: skip


async def test_channels_of_unknown_records_are_forbidden(pusher_service: PusherService) -> None:
    for channel in STRANGE:
        answer = await pusher_service.authorise(channel)
        assert answer.status_code in (403, 422), answer.text
        assert "auth" not in answer.json()


async def test_a_stream_has_no_channel_of_a_video(pusher_service: PusherService) -> None:
    assert (
        await pusher_service.authorise(f"private-video.{pusher_service.hash}")
    ).status_code == 403


USELESS = [
    b"", b"{", b"socket_id=1.2", b"socket_id=x&channel_name=private-project.1",
    b"socket_id=1.2%3A3&channel_name=a", b"\xff=%ff", b"&" * 900,
]  # fmt: skip


async def test_an_invalid_authorization_request_is_refused(
    pusher_service: PusherService,
) -> None:
    headers = {
        "Authorization": f"Bearer {pusher_service.token}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    for body in USELESS:
        answer = await pusher_service.client.post(
            "/broadcasting/auth", content=body, headers=headers
        )
        assert answer.status_code == 422, answer.text


async def test_an_authorization_request_may_be_json(pusher_service: PusherService) -> None:
    question = {"socket_id": "12.34", "channel_name": "private-project.1"}
    headers = {"Authorization": f"Bearer {pusher_service.token}"}
    answer = await pusher_service.client.post("/broadcasting/auth", json=question, headers=headers)
    assert answer.json() == auth_of(pusher_service, "private-project.1")


async def test_pages_of_other_origins_may_ask_and_read_the_answer(
    pusher_service: PusherService,
) -> None:
    origin = {"Origin": "https://shop.example"}
    preflight = await pusher_service.client.options("/broadcasting/auth", headers=origin)
    assert preflight.status_code == 204
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    assert preflight.headers["access-control-allow-origin"] == "*"
    refused = await pusher_service.client.post("/broadcasting/auth", headers=origin)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "*")


async def test_an_authorization_request_that_is_too_large_is_refused(
    pusher_service: PusherService,
) -> None:
    headers = {"Authorization": f"Bearer {pusher_service.token}"}
    answer = await pusher_service.client.post(
        "/broadcasting/auth", content=b"a" * 9000, headers=headers
    )
    assert answer.status_code == 413
