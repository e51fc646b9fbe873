"""Who gets mail, over the API: checked, kept apart by project, and tried out."""

from collections.abc import Sequence

import pytest

from api.http.errors import ApiError
from api.library.alert_mail import MailTests
from storage.catalog.records.alerts import MailAnswer
from tests.support.api.application import ApiService

PROJECT = "/api/projects/1/mail"
WHOLE = "/api/operations/mail"
OF_PROJECT = {"primary_lost": True, "off_air": True, "video_failed": True}
OF_ALL = {**OF_PROJECT, "disk": True, "certificate": True, "backup": True}


@pytest.mark.parametrize(("path", "kinds"), [(PROJECT, OF_PROJECT), (WHOLE, OF_ALL)])
async def test_addresses_and_kinds_are_set_one_by_one(
    api_service: ApiService, path: str, kinds: dict[str, bool]
) -> None:
    client, owner = api_service.client, api_service.owner
    shown = await client.get(path, headers=owner)
    nothing: dict[str, object] = {
        "to": [],
        "kinds": kinds,
        "is_set_up": False,
        "waiting": 0,
        "problem": None,
    }
    assert shown.json() == {"data": nothing}
    edit = {"to": ["ops@a.example", "b@c.example", "ops@a.example"], "kinds": {"off_air": False}}
    changed = await client.put(path, json=edit, headers=owner)
    mail = nothing | {"to": ["ops@a.example", "b@c.example"], "kinds": kinds | {"off_air": False}}
    assert changed.json() == {"message": "Mail updated.", "mail": mail}
    again = await client.put(path, json={"kinds": {"off_air": True}}, headers=owner)
    assert again.json()["mail"]["kinds"] == kinds
    assert again.json()["mail"]["to"] == ["ops@a.example", "b@c.example"]
    stale = {**owner, "If-Match": shown.headers["etag"]}
    assert (await client.put(path, json={"to": []}, headers=stale)).status_code == 412


@pytest.mark.parametrize(
    "address",
    ["", "ops", "a@b@c", "a b@c.example", "a@c.example\r\nBcc: x@y", "ä@c.example", "<a@b.c>",
     "a@-b.example", "x" * 250 + "@c.example"],
)  # fmt: skip
async def test_what_is_no_address_is_refused(api_service: ApiService, address: str) -> None:
    body = {"to": ["ops@a.example", address]}
    answer = await api_service.client.put(PROJECT, json=body, headers=api_service.owner)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["to"]


async def test_more_than_ten_addresses_and_kinds_of_machines_are_refused(
    api_service: ApiService,
) -> None:
    client, owner = api_service.client, api_service.owner
    many = {"to": [f"{number}@a.example" for number in range(11)]}
    assert (await client.put(PROJECT, json=many, headers=owner)).status_code == 422
    disk = {"kinds": {"disk": True}}
    assert (await client.put(PROJECT, json=disk, headers=owner)).status_code == 422


async def test_that_of_the_installation_takes_a_token_for_all_projects(
    api_service: ApiService,
) -> None:
    client = api_service.client
    of_one = await api_service.headers_of("one", 1, write=True)
    assert (await client.get(PROJECT, headers=of_one)).status_code == 200
    assert (await client.get(WHOLE, headers=of_one)).status_code == 403
    assert (await client.put(WHOLE, json={"to": []}, headers=of_one)).status_code == 403
    assert (await client.post(f"{WHOLE}/test", headers=of_one)).status_code == 403
    reader = await api_service.headers_of("reader", None, write=False)
    assert (await client.get(WHOLE, headers=reader)).status_code == 200
    assert (await client.put(WHOLE, json={"to": []}, headers=reader)).status_code == 403


@pytest.mark.parametrize("path", [PROJECT, WHOLE])
async def test_without_a_server_nothing_is_tried_out(api_service: ApiService, path: str) -> None:
    answer = await api_service.client.post(f"{path}/test", headers=api_service.owner)
    assert answer.status_code == 409
    assert answer.json() == {"message": "No mail server is set: mail.server."}


async def test_each_scope_is_tried_out_no_oftener_than_every_ten_seconds() -> None:
    sent: list[str] = []

    async def send(addresses: Sequence[str]) -> Sequence[MailAnswer]:
        sent.extend(addresses)
        return [MailAnswer(to=each, accepted=True, answer="250 Ok") for each in addresses]

    tests = MailTests(send)
    assert tests.is_set_up
    answer = await tests.send(1, ("a@b.example", "c@d.example"))
    assert answer.message == "a@b.example: 250 Ok c@d.example: 250 Ok"
    await tests.send(0, ("a@b.example",))
    with pytest.raises(ApiError) as caught:
        await tests.send(1, ("a@b.example",))
    assert caught.value.status_code == 429
    with pytest.raises(ApiError, match="No address"):
        await tests.send(2, ())
    assert len(sent) == 3
