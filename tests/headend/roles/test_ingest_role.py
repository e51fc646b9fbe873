"""The ingest role on a data folder: it listens, counts, and starts with no stream on air."""

import socket
from pathlib import Path

import pytest

from headend.config.listen_sockets import port_of
from headend.http.metrics import metrics_text
from headend.roles.context import open_context
from headend.roles.ingest_role import run_ingest
from tests.headend.hosts.test_stale_streams import go_live, is_live
from tests.support.headend.installed import installed
from tests.support.waiting import until


async def test_streams_that_a_killed_ingest_left_on_air_are_off_air(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with open_context(settings, origin=False, ingest=True) as context:
        await go_live(context.catalog)
        async with run_ingest(context) as role:
            assert not await is_live(context.catalog)
            assert not role.is_shedding()


async def test_an_encoder_that_connects_is_counted_until_it_leaves(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    async with (
        open_context(settings, origin=False, ingest=True) as context,
        run_ingest(context) as role,
    ):
        read = metrics_text(*role.metrics)
        with socket.create_connection(("127.0.0.1", port_of(context.sockets.rtmp))):
            await until(lambda: b"headend_ingest_connections 1.0" in read())
        await until(lambda: b"headend_ingest_connections 0.0" in read())


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
