"""One event to a thousand web-sockets costs what it may."""

import pytest

from bench.fanout.__main__ import TARGET, measured
from tests.conftest import Proof


@pytest.mark.prove
def test_an_event_for_a_thousand_sockets_costs_little(proof: Proof) -> None:
    cost = min(measured(1000, 20) for _ in range(2))
    proof("CPU of one event for each of 1,000 web-sockets", f"{cost:.1f} us", f"<= {TARGET:.0f} us")
    assert cost <= TARGET
