"""The call that a handler gets: who may reach which record, and when a change is made."""

from typing import cast

import pytest
from litestar import Request
from litestar.types import HTTPScope

from api.http.errors import ApiError
from api.http.operation import Call, Services
from api.schemas.presenter import Presenter
from storage.catalog.records.common import Change, Principal
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, ApiService


@pytest.fixture
def plain(api_service: ApiService) -> Call[None]:
    """A call of token 7 of project 1; the clock ticks at each look."""
    presenter = Presenter(addresses=ADDRESSES, broadcaster_key=BROADCASTER_KEY)
    ticks = iter(range(5, 10))
    services = Services(api_service.catalog, presenter, lambda: next(ticks))
    caller = Principal(id=7, name="token", project=1, write=True)
    scope = cast("HTTPScope", {"type": "http", "auth": caller})  # all that a call looks at
    return Call(Request(scope), services, None, "")


async def test_a_call_has_the_record_of_a_project_that_its_caller_reaches(
    plain: Call[None],
) -> None:
    call = plain.to("record", 1, "stream")
    assert (call.record, call.noun, call.caller) == ("record", "stream", plain.caller)


@pytest.mark.parametrize(("record", "project"), [(None, None), (None, 1), ("record", 2)])
async def test_what_is_not_there_or_not_the_callers_is_not_found(
    plain: Call[None], record: str | None, project: int | None
) -> None:
    with pytest.raises(ApiError, match="There is no such stream") as raised:
        plain.to(record, project, "stream")
    assert raised.value.status_code == 404


async def test_what_was_deleted_meanwhile_is_not_found(plain: Call[None]) -> None:
    call = plain.to("record", 1, "stream")
    assert [call.still_there("changed"), call.still_there(0)] == ["changed", 0]
    with pytest.raises(ApiError, match="There is no such stream"):
        call.still_there(None)


async def test_a_change_is_made_by_the_callers_token_when_it_is_made(plain: Call[None]) -> None:
    assert [plain.change(), plain.change()] == [Change(5, by=7), Change(6, by=7)]
