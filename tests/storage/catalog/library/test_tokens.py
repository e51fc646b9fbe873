"""Tokens: what they open, how they end, what is kept of them."""

from pathlib import Path

import pytest

from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.errors import NoSuchProject, TokenRevoked
from tests.support.shared_engines import ON_BOTH


def _stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_token_makes_its_bearer_a_principal(catalog: Catalog) -> None:
    project = await catalog.projects.add("Sport", Change(1))
    record, token = await catalog.tokens.add("player", project.id, Change(5), write=False)
    principal = await catalog.tokens.authenticate(token)
    assert principal is not None
    assert (principal.id, principal.name) == (record.id, "player")
    assert (principal.project, principal.write) == (project.id, False)
    assert principal.reaches(project.id)
    assert not principal.reaches(project.id + 1)


async def test_a_token_of_no_project_reaches_all(catalog: Catalog) -> None:
    _, token = await catalog.tokens.add("all", None, Change(5), write=True)
    principal = await catalog.tokens.authenticate(token)
    assert principal is not None
    assert principal.write
    assert principal.reaches(1)
    assert principal.reaches(99)


async def test_a_token_for_no_project_there_is_is_refused(catalog: Catalog) -> None:
    with pytest.raises(NoSuchProject):
        await catalog.tokens.add("lost", 99, Change(1), write=True)
    assert await catalog.tokens.find_all() == ()


@pytest.mark.parametrize(
    "token", ["", "headend_", "headend_" + "A" * 43, "\udcff\udc00", "ключ", "x" * 100_000]
)
async def test_a_strangers_token_opens_nothing(catalog: Catalog, token: str) -> None:
    await catalog.installation.first_start(1)
    assert await catalog.tokens.authenticate(token) is None


async def test_a_revoked_token_opens_nothing_from_then_on(catalog: Catalog) -> None:
    record, token = await catalog.tokens.add("old", None, Change(5), write=True)
    _, other = await catalog.tokens.add("new", None, Change(6), write=True)
    assert len(await catalog.tokens.revoke(record.id, Change(9))) == 1
    assert await catalog.tokens.authenticate(token) is None
    assert await catalog.tokens.authenticate(other) is not None
    assert not await catalog.tokens.revoke(record.id, Change(10))
    assert not await catalog.tokens.revoke(999, Change(10))
    listed = await catalog.tokens.find_all()
    assert [(each.name, each.revoked_us) for each in listed] == [("old", 9), ("new", None)]


async def test_the_files_hold_no_token(file: Path) -> None:
    async with open_catalog(file, migrate=True) as catalog:
        owner = (await catalog.installation.first_start(1)).owner_token
        _, token = await catalog.tokens.add("player", None, Change(5), write=False)
        assert owner is not None
        stored_bytes = _stored_bytes(
            file.parent
        )  # while the write-ahead log is still beside the database
    stored_bytes += _stored_bytes(file.parent)
    assert b"player" in stored_bytes
    for secret in (owner, token):
        assert secret.encode() not in stored_bytes
        assert secret.removeprefix("headend_").encode() not in stored_bytes


async def test_tokens_are_listed_newest_first_as_far_as_a_caller_reaches(
    catalog: Catalog,
) -> None:
    project = (await catalog.projects.add("Sport", Change(1))).id
    mine = [
        (await catalog.tokens.add(f"{number}", project, Change(number), write=False))[0]
        for number in range(11)
    ]
    whole, _ = await catalog.tokens.add("all", None, Change(20), write=True)
    first = await catalog.tokens.find_page()
    assert (first.items[0], first.total, first.last) == (whole, 12, 2)
    theirs = await catalog.tokens.find_page(reach=project, page=2)
    assert (theirs.items, theirs.total) == ((mine[0],), 11)
    assert await catalog.tokens.find(whole.id) == whole
    for number in (0, -1, 999, 1 << 31, 10**40):
        assert await catalog.tokens.find(number) is None
        assert not await catalog.tokens.revoke(number, Change(1))


async def test_events_about_a_token_do_not_contain_it(catalog: Catalog) -> None:
    first = (await catalog.installation.first_start(1)).project
    project = (await catalog.projects.add("Sport", Change(1))).id
    mine, token = await catalog.tokens.add("mine", project, Change(2, by=1), write=True)
    whole, _ = await catalog.tokens.add("all", None, Change(3, by=1), write=False)
    await catalog.tokens.revoke(mine.id, Change(4, by=whole.id))
    await catalog.tokens.revoke(mine.id, Change(5, by=whole.id))
    logged = (await catalog.events.find_page(project)).items
    assert [(each.kind, each.facts, each.token) for each in logged[:2]] == [
        ("token revoked", {"token": mine.id, "name": "mine", "write": True}, whole.id),
        ("token added", {"token": mine.id, "name": "mine", "write": True}, 1),
    ]
    newest = (await catalog.events.find_page(first.id)).items[0]
    assert (newest.kind, newest.facts["token"]) == ("token added", whole.id)
    assert token not in repr(logged)


@ON_BOTH
async def test_a_token_is_revoked_with_all_that_were_made_with_it(catalog: Catalog) -> None:
    async def added(name: str, by: int | None) -> int:
        record, _ = await catalog.tokens.add(name, None, Change(1, by=by), write=True)
        assert record.created_by == by
        return record.id

    owner = await added("owner", None)
    leaked = await added("leaked", owner)
    child = await added("child", leaked)
    grandchild = await added("grandchild", child)
    other = await added("other", owner)
    assert [each.id for each in await catalog.tokens.revoke(child, Change(2))] == [child]
    # The child was revoked earlier; its own child is revoked nevertheless.
    revoked = await catalog.tokens.revoke(leaked, Change(3, by=owner), descendants=True)
    assert [(each.id, each.revoked_us) for each in revoked] == [(leaked, 3), (grandchild, 3)]
    valid = {each.id for each in await catalog.tokens.find_all() if each.revoked_us is None}
    assert valid == {owner, other}


@ON_BOTH
async def test_a_token_that_was_revoked_meanwhile_makes_no_other(catalog: Catalog) -> None:
    record, text = await catalog.tokens.add("leaked", None, Change(1), write=True)
    principal = await catalog.tokens.authenticate(text)  # a request begins
    assert principal is not None
    await catalog.tokens.revoke(record.id, Change(2), descendants=True)
    with pytest.raises(TokenRevoked):
        await catalog.tokens.add("child", None, Change(3, by=principal.id), write=True)
    assert [each.id for each in await catalog.tokens.find_all()] == [record.id]


@ON_BOTH
async def test_many_tokens_are_told_apart_at_once(catalog: Catalog) -> None:
    numbers = [
        (await catalog.tokens.add(name, None, Change(5), write=True))[0].id for name in "abc"
    ]
    await catalog.tokens.revoke(numbers[1], Change(9))
    asked = [*numbers, 999, 2**70]
    assert await catalog.tokens.find_valid(asked) == {numbers[0], numbers[2]}
    assert await catalog.tokens.find_valid([]) == frozenset()
