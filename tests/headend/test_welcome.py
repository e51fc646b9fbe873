"""What a role prints once it is ready, and that it prints keys to a terminal only."""

from pathlib import Path

import msgspec
import pytest

from headend.roles.wiring import RunningService
from headend.welcome import welcome
from storage.catalog import open_catalog
from storage.catalog.records.common import FirstStart
from tests.support.api.application import ADDRESSES
from tests.support.sql import migrated


@pytest.fixture
async def first(tmp_path: Path) -> FirstStart:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=False) as catalog:
        return await catalog.installation.first_start(1)


@pytest.mark.parametrize("terminal", [True, False])
async def test_the_key_is_printed_to_a_terminal_only(first: FirstStart, terminal: bool) -> None:
    stream = first.stream
    assert stream is not None
    text = welcome(
        RunningService(addresses=ADDRESSES, first=first, rtmp_port=1935), terminal=terminal
    )
    assert (stream.key.text in text) is terminal
    assert (stream.key.text.partition("_")[2] in text) is terminal
    assert ("`headend streams` prints it" in text) is not terminal


async def test_each_role_prints_its_own_addresses(first: FirstStart) -> None:
    assert first.stream is not None
    watch, server = ADDRESSES.watch(first.stream.hash), "In OBS"
    token = Path("/data/owner.token")
    for running, expected in (
        (RunningService(addresses=ADDRESSES, first=first), set[str]()),
        (RunningService(addresses=ADDRESSES, first=first, rtmp_port=1935), {server}),
        (RunningService(addresses=ADDRESSES, first=first, token_file=token), {watch, str(token)}),
        (
            RunningService(addresses=ADDRESSES, first=first, status="http://localhost:9000"),
            {"http://localhost:9000/readyz"},
        ),
    ):
        text = welcome(running, terminal=False)
        for word in (watch, server, str(token), "/readyz"):
            assert (word in text) is any(word in each for each in expected), (word, text)


async def test_an_address_that_is_not_served_is_not_printed(first: FirstStart) -> None:
    addresses = msgspec.structs.replace(ADDRESSES, rtmp="")
    text = welcome(RunningService(addresses=addresses, first=first, rtmp_port=0), terminal=True)
    assert f"Server     {ADDRESSES.rtmps}/live" in text
    assert "rtmp://" not in text


@pytest.mark.parametrize("terminal", [True, False])
async def test_the_sign_in_link_is_printed_to_a_terminal_only(
    first: FirstStart, terminal: bool
) -> None:
    running = RunningService(addresses=ADDRESSES, first=first, token_file=Path("/data/owner.token"))
    link = f"{ADDRESSES.http}/console/sign-in#link=secret"
    text = welcome(running, terminal=terminal, link=link)
    assert (link in text) is terminal
    assert ("within 15 minutes" in text) is terminal
    assert f"Console      {ADDRESSES.http}/console" in text


async def test_a_role_without_the_api_has_no_console(first: FirstStart) -> None:
    assert "Console" not in welcome(RunningService(addresses=ADDRESSES, first=first), terminal=True)
