"""The bench of relaying, at a small count."""

import pytest

from bench.relay.__main__ import Cost, measure


def measured(where: str) -> Cost:
    return measure(where, streams=2, bits=1_000_000, seconds=1.2, read_seconds=0.05, settle=0.2)


@pytest.mark.parametrize("where", [pytest.param("here", marks=pytest.mark.prove), "relayed"])
def test_all_packets_come_into_runs(where: str) -> None:
    cost = measured(where)
    assert cost.sent >= 80
    assert cost.taken == cost.sent
    assert cost.host > 0
