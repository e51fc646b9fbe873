"""Which tokens and sessions still open private channels, after a real catalog."""

from api.pusher.grants import holding_in, none_hold
from api.pusher.protocol import ChannelGrant
from storage.catalog.library.sessions import LIFE_SECONDS
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService


async def test_a_grant_holds_until_its_token_or_session_ends(api_service: ApiService) -> None:
    catalog = api_service.catalog
    record, _ = await catalog.tokens.add("mine", None, Change(NOW_US), write=False)
    secrets = [await catalog.sessions.add(record.id, NOW_US) for _ in range(2)]
    principals = [await catalog.sessions.authenticate(secret, NOW_US) for secret in secrets]
    first, second = [
        ChannelGrant(record.id, each.session) for each in principals if each is not None
    ]
    token, owner, unknown = ChannelGrant(record.id), ChannelGrant(1), ChannelGrant(99)
    now_us = NOW_US
    find = holding_in(catalog, lambda: now_us)
    grants = {
        first,
        second,
        token,
        owner,
        unknown,
        ChannelGrant(1, "0" * 64),
        ChannelGrant(2**63 - 1),
    }
    assert await find(grants) == {first, second, token, owner}
    await catalog.sessions.remove(secrets[0])
    assert await find(grants) == {second, token, owner}
    now_us = NOW_US + LIFE_SECONDS * 1_000_000
    assert await find(grants) == {token, owner}, "a session's time is over"
    now_us = NOW_US
    assert await find(grants) == {second, token, owner}
    await catalog.tokens.revoke(record.id, Change(NOW_US))
    assert await find(grants) == {owner}
    assert await find(()) == frozenset()


async def test_as_many_are_looked_up_as_a_process_has_sockets(api_service: ApiService) -> None:
    find = holding_in(api_service.catalog, lambda: NOW_US)
    many = {ChannelGrant(number) for number in range(1, 40_000)}
    many |= {ChannelGrant(1, f"{number:064x}") for number in range(40_000)}
    assert await find(many) == {ChannelGrant(1)}


async def test_without_a_catalog_nothing_opens_a_channel() -> None:
    assert await none_hold({ChannelGrant(1)}) == frozenset()
