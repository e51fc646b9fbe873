"""Publishing over HTTP: what is signed is told, once for each channel, and nothing else is."""

import json

from api.pusher.limits import MAX_DATA_BYTES
from tests.support.api.application import NOW_US
from tests.support.api.pusher_client import PusherService

EVENT = {"name": "greeting", "channel": "lobby", "data": '{"hello":"\u00fc"}'}
NOW = NOW_US // 1_000_000


async def test_a_signed_event_becomes_a_notice(desk: PusherService) -> None:
    answer = await desk.publish(EVENT)
    assert (answer.status_code, answer.json()) == (200, {})
    (notice,) = await desk.told()
    assert (notice.channel, notice.event, notice.body, notice.except_socket) == (
        "lobby", "greeting", EVENT["data"], None,
    )  # fmt: skip


async def test_an_event_for_many_channels_is_told_on_each_once(desk: PusherService) -> None:
    event = {"name": "e", "channels": ["a", "b", "a"], "data": "x", "socket_id": "1.2", "info": "x"}
    assert (await desk.publish(event)).status_code == 200
    assert [(each.channel, each.except_socket) for each in await desk.told()] == [
        ("a", "1.2"),
        ("b", "1.2"),
    ]


async def test_a_batch_is_told_in_its_order(desk: PusherService) -> None:
    batch = {"batch": [{"name": f"e{n}", "channel": "a", "data": "x"} for n in range(10)]}
    assert (await desk.publish(batch, path="/apps/1/batch_events")).status_code == 200
    assert [each.event for each in await desk.told()] == [f"e{n}" for n in range(10)]


async def test_a_batch_with_one_fault_tells_nothing(desk: PusherService) -> None:
    batch = {"batch": [EVENT, {**EVENT, "channel": "a b"}]}
    answer = await desk.publish(batch, path="/apps/1/batch_events")
    assert answer.status_code == 422
    assert await desk.told() == ()


async def test_parameters_beside_those_of_the_signature_are_signed_too(desk: PusherService) -> None:
    assert (await desk.publish(EVENT, parameters={"Info": "a b&c"})).status_code == 401
    assert (await desk.publish(EVENT, parameters={"info": "a b&c"})).status_code == 200


async def test_a_signature_is_good_for_ten_minutes(desk: PusherService) -> None:
    for seconds, status in ((-601, 401), (-600, 200), (600, 200), (601, 401)):
        answer = await desk.publish(EVENT, timestamp=NOW + seconds)
        assert answer.status_code == status, seconds


async def test_what_is_not_signed_for_this_is_refused_and_not_told(desk: PusherService) -> None:
    other = json.dumps({**EVENT, "channel": "other"}).encode()
    refused = [
        await desk.publish(EVENT, secret="another"),
        await desk.publish(EVENT, sent=other),
        await desk.publish(EVENT, parameters={"auth_key": "another"}),
        await desk.publish(EVENT, parameters={"auth_version": "2.0"}),
        await desk.publish(EVENT, parameters={"auth_timestamp": "\u0667" * 9}),
        await desk.publish(EVENT, parameters={"auth_timestamp": "9" * 40}),
        await desk.client.post("/apps/1/events", content=json.dumps(EVENT)),
        await desk.client.post(
            "/apps/1/events?" + "&".join(f"a{n}=1" for n in range(90)), content=b"{}"
        ),
    ]
    assert [each.status_code for each in refused] == [401] * len(refused)
    assert all(set(each.json()) == {"message"} for each in refused)
    assert await desk.told() == ()
    signed_for_another_path = await desk.publish(EVENT, path="/apps/1/events")
    query = signed_for_another_path.request.url.query.decode()
    body = json.dumps({"batch": [EVENT]}).encode()
    answer = await desk.client.post(f"/apps/1/batch_events?{query}", content=body)
    assert answer.status_code == 401


async def test_an_owner_of_no_app_finds_none(desk: PusherService) -> None:
    assert (await desk.publish(EVENT, path="/apps/2/events")).status_code == 404


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


async def test_what_cannot_be_told_is_refused(desk: PusherService) -> None:
    for event, status in REFUSED:
        answer = await desk.publish(event)
        assert answer.status_code == status, (str(event)[:99], answer.text)
    assert await desk.told() == ()


async def test_the_longest_event_fits(desk: PusherService) -> None:
    event = {"name": "n" * 200, "channel": "c" * 200, "data": "ü" * (MAX_DATA_BYTES // 2)}
    assert (await desk.publish(event)).status_code == 200
    assert (await desk.told())[0].body == event["data"]


async def test_figures_of_channels_are_not_given(desk: PusherService) -> None:
    assert (await desk.client.get("/apps/1/channels")).status_code == 404
    assert (await desk.client.get("/apps/1/events")).status_code == 405
