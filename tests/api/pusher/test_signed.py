"""Publishing over HTTP: signed events are sent once to each channel, and no others."""

import json

from api.pusher.limits import MAX_DATA_BYTES
from tests.support.api.application import NOW_US
from tests.support.api.pusher_client import PusherService

EVENT = {"name": "greeting", "channel": "lobby", "data": '{"hello":"\u00fc"}'}
NOW = NOW_US // 1_000_000


async def test_a_signed_event_becomes_a_notice(pusher_service: PusherService) -> None:
    answer = await pusher_service.publish(EVENT)
    assert (answer.status_code, answer.json()) == (200, {})
    (notice,) = await pusher_service.notices()
    assert (notice.channel, notice.event, notice.body, notice.except_socket) == (
        "lobby", "greeting", EVENT["data"], None,
    )  # fmt: skip


async def test_an_event_for_many_channels_is_sent_on_each_once(
    pusher_service: PusherService,
) -> None:
    event = {"name": "e", "channels": ["a", "b", "a"], "data": "x", "socket_id": "1.2", "info": "x"}
    assert (await pusher_service.publish(event)).status_code == 200
    assert [(each.channel, each.except_socket) for each in await pusher_service.notices()] == [
        ("a", "1.2"),
        ("b", "1.2"),
    ]


async def test_a_batch_is_sent_in_order(pusher_service: PusherService) -> None:
    batch = {"batch": [{"name": f"e{n}", "channel": "a", "data": "x"} for n in range(10)]}
    assert (await pusher_service.publish(batch, path="/apps/1/batch_events")).status_code == 200
    assert [each.event for each in await pusher_service.notices()] == [f"e{n}" for n in range(10)]


async def test_a_batch_with_one_fault_sends_nothing(pusher_service: PusherService) -> None:
    batch = {"batch": [EVENT, {**EVENT, "channel": "a b"}]}
    answer = await pusher_service.publish(batch, path="/apps/1/batch_events")
    assert answer.status_code == 422
    assert await pusher_service.notices() == ()


async def test_parameters_beside_those_of_the_signature_are_signed_too(
    pusher_service: PusherService,
) -> None:
    assert (await pusher_service.publish(EVENT, parameters={"Info": "a b&c"})).status_code == 401
    assert (await pusher_service.publish(EVENT, parameters={"info": "a b&c"})).status_code == 200


async def test_a_signature_is_good_for_ten_minutes(pusher_service: PusherService) -> None:
    for seconds, status in ((-601, 401), (-600, 200), (600, 200), (601, 401)):
        answer = await pusher_service.publish(EVENT, timestamp=NOW + seconds)
        assert answer.status_code == status, seconds


async def test_requests_without_a_valid_signature_are_refused_and_not_sent(
    pusher_service: PusherService,
) -> None:
    other = json.dumps({**EVENT, "channel": "other"}).encode()
    refused = [
        await pusher_service.publish(EVENT, secret="another"),
        await pusher_service.publish(EVENT, sent=other),
        await pusher_service.publish(EVENT, parameters={"auth_key": "another"}),
        await pusher_service.publish(EVENT, parameters={"auth_version": "2.0"}),
        await pusher_service.publish(EVENT, parameters={"auth_timestamp": "\u0667" * 9}),
        await pusher_service.publish(EVENT, parameters={"auth_timestamp": "9" * 40}),
        await pusher_service.client.post("/apps/1/events", content=json.dumps(EVENT)),
        await pusher_service.client.post(
            "/apps/1/events?" + "&".join(f"a{n}=1" for n in range(90)), content=b"{}"
        ),
    ]
    assert [each.status_code for each in refused] == [401] * len(refused)
    assert all(set(each.json()) == {"message"} for each in refused)
    assert await pusher_service.notices() == ()
    signed_for_another_path = await pusher_service.publish(EVENT, path="/apps/1/events")
    query = signed_for_another_path.request.url.query.decode()
    body = json.dumps({"batch": [EVENT]}).encode()
    answer = await pusher_service.client.post(f"/apps/1/batch_events?{query}", content=body)
    assert answer.status_code == 401


async def test_another_app_is_not_found(pusher_service: PusherService) -> None:
    assert (await pusher_service.publish(EVENT, path="/apps/2/events")).status_code == 404


REFUSED: list[tuple[object, int]] = [
    (b"{", 400),
    (b"\xff", 400),
    (b"[" * 2000, 400),
    ([], 422),
    ({}, 422),
    ({**EVENT, "data": {}}, 422),
    ({**EVENT, "name": ""}, 422),
    ({**EVENT, "name": "a" * 201}, 422),
    ({**EVENT, "name": "pusher:ping"}, 422),
    ({**EVENT, "name": "pusher_internal:x"}, 422),
    ({**EVENT, "name": "client-x"}, 422),
    ({**EVENT, "channel": None}, 422),
    ({**EVENT, "channel": "a b"}, 422),
    ({**EVENT, "channel": "a" * 201}, 422),
    ({**EVENT, "channels": [f"c{n}" for n in range(101)]}, 422),
    ({**EVENT, "socket_id": "x"}, 422),
    ({**EVENT, "other": 1}, 422),
    ({**EVENT, "data": "\0"}, 422),
    ({**EVENT, "data": "ü" * (MAX_DATA_BYTES // 2) + "x"}, 413),
    ({**EVENT, "data": "x" * (1 << 19)}, 413),
]


async def test_invalid_events_are_refused(pusher_service: PusherService) -> None:
    for event, status in REFUSED:
        answer = await pusher_service.publish(event)
        assert answer.status_code == status, (str(event)[:99], answer.text)
    assert await pusher_service.notices() == ()


async def test_the_longest_event_fits(pusher_service: PusherService) -> None:
    event = {"name": "n" * 200, "channel": "c" * 200, "data": "ü" * (MAX_DATA_BYTES // 2)}
    assert (await pusher_service.publish(event)).status_code == 200
    assert (await pusher_service.notices())[0].body == event["data"]


async def test_statistics_of_channels_are_not_offered(pusher_service: PusherService) -> None:
    assert (await pusher_service.client.get("/apps/1/channels")).status_code == 404
    assert (await pusher_service.client.get("/apps/1/events")).status_code == 405
