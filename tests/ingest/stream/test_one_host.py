"""The ownership of streams where one host has them all."""

from ingest.stream.one_host import OneHost
from ingest.stream.ports import Ownership
from tests.ingest.stream.test_live_stream import GRANT


def test_every_stream_is_ours_without_waiting() -> None:
    claim = OneHost().claim(GRANT)
    try:
        claim.send(None)
    except StopIteration as answer:
        assert answer.value == Ownership(generation=0, address=None)
    else:
        raise AssertionError("it waited")


async def test_a_release_changes_nothing() -> None:
    one = OneHost()
    await one.release(GRANT, 0)
    assert (await one.claim(GRANT, ended_owner=0)).address is None
