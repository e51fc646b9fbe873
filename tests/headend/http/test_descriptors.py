"""The descriptors that remain for HTTP."""

import logging
import resource

import pytest

from headend.http.descriptors import connection_bound, raise_limit


@pytest.mark.parametrize(
    ("descriptors", "encoders", "expected"),
    [
        pytest.param(1 << 20, 1000, 20_000, id="as many as are wanted"),
        pytest.param(20_000, 1000, 9_244, id="what the reserve leaves, two each"),
        pytest.param(1024, 0, 256, id="few"),
        pytest.param(1024, 1000, 64, id="an eighth, when nothing is left"),
        pytest.param(8, 0, 1, id="hardly any"),
    ],
)
def test_http_gets_the_descriptors_beyond_the_reserve_for_encoders(
    descriptors: int, encoders: int, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headend.http.descriptors")
    assert connection_bound(20_000, descriptors, encoders) == expected
    assert len(caplog.records) == (expected < 20_000)


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, hard), hard))
    try:
        assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
