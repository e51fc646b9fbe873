"""The ingest role on a data folder: it listens, counts, and begins with no stream on air."""

import socket
from pathlib import Path

import pytest

from headend.config.listen_sockets import port_of
from headend.install.installation import DATABASE
from headend.roles.context import open_context
from headend.roles.ingest_role import run_ingest
from tests.headend.roles.test_command_executor import NEVER, registered
from tests.headend.roles.test_stale_streams import go_live, is_live
from tests.support.headend.installed import installed
from tests.support.sql import run_sql
from tests.support.waiting import until


async def test_streams_that_a_killed_ingest_left_on_air_are_off_air(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with open_context(settings, origin=False, ingest=True) as context:
        await go_live(context.catalog)
        async with run_ingest(context) as role:
            assert not await is_live(context.catalog)
            assert not role.is_shedding()


async def test_streams_of_silent_hosts_stay_on_air_and_those_of_removed_ones_do_not(
    tmp_path: Path,
) -> None:
    settings = await installed(tmp_path)
    async with open_context(settings, origin=False, ingest=True) as context:
        catalog = context.catalog
        await catalog.streams.add(1, "second", 1)
        presence = await registered(catalog)
        hosts = [await catalog.hosts.register(name, "ingest", None, "1") for name in "ab"]
        for stream, host in zip(await catalog.streams.find_all(), hosts, strict=True):
            await catalog.owners.claim(stream.id, host, dead_seconds=NEVER)
            await catalog.live_state.set(
                stream.id, live=True, processing=True, on_air=0, sending={0}, no_audio=False,
                now_us=1,
            )  # fmt: skip
        await catalog.hosts.leave(hosts[1])
        # As long as the database was away, no host was seen.
        run_sql(tmp_path / DATABASE, "UPDATE hosts SET seen_us = seen_us - 30000000")
        async with run_ingest(context, presence):
            assert [each.live for each in await catalog.streams.find_all()] == [True, False]


async def test_an_encoder_that_connects_is_counted_until_it_leaves(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_context(settings, origin=False, ingest=True) as context,
        run_ingest(context) as role,
    ):
        with socket.create_connection(("127.0.0.1", port_of(context.sockets.rtmp))):
            await until(lambda: b"headend_ingest_connections 1.0" in role.metrics())
        await until(lambda: b"headend_ingest_connections 0.0" in role.metrics())


@pytest.mark.parametrize("listen", ["127.0.0.1:0", ""], ids=["with RTMPS", "without"])
async def test_there_is_a_certificate_where_rtmps_is_served(tmp_path: Path, listen: str) -> None:
    settings = await installed(tmp_path, rtmps__listen=listen)
    async with (
        open_context(settings, origin=False, ingest=True) as context,
        run_ingest(context) as role,
    ):
        assert (role.tls is not None) is bool(listen)
        if role.tls is not None:
            assert role.tls.authority is not None
            assert role.tls.authority.is_relative_to(tmp_path / "tls")
