"""What the doctor says of the way to Redis."""

from pathlib import Path

import pytest

from headend.install.redis_finding import redis_finding

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "processes poll"),
        ("unix:///run/redis/redis.sock?db=1", "a socket of this machine"),
        ("redis://", "on this machine"),
        ("redis://127.0.0.2:6379/0", "on this machine"),
        ("redis://[::1]:6379", "on this machine"),
        ("redis://localhost", "on this machine"),
        ("redis://[::ffff:127.0.0.1]", "on this machine"),
        (f"redis://:{SECRET}@10.0.0.5:6379/0", "10.0.0.5 is reached without TLS: its network"),
        ("redis://[fd00::1]", "fd00::1 is reached without TLS: its network must be trusted"),
        ("redis://100.64.0.9", "100.64.0.9 is reached without TLS: its network must be trusted"),
        (f"rediss://user:{SECRET}@redis.example.org:6379/0", "redis.example.org, over TLS"),
        ("rediss://10.0.0.5?ssl_cert_reqs=required&ssl_check_hostname=yes", "over TLS"),
    ],
)
async def test_a_way_that_is_safe_or_private_is_well(url: str, words: str) -> None:
    finding = await redis_finding(url)
    assert (finding.topic, finding.verdict) == ("redis", "well")
    assert words in finding.text
    assert SECRET not in finding.text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"redis://:{SECRET}@192.0.43.10:6379/0", "192.0.43.10 is reached without TLS"),
        ("redis://[2600::1]", "2600::1 is reached without TLS"),
        ("redis://[::ffff:192.0.43.10]", "is reached without TLS, over public networks"),
        (f"redis://:{SECRET}@redis.invalid", "redis.invalid in redis.url cannot be resolved"),
        (f"redis://{'x' * 70}.example.org", "cannot be resolved"),
        ("rediss://10.0.0.5?ssl_cert_reqs=none", "any server is taken for Redis"),
        ("rediss://10.0.0.5?ssl_cert_reqs=CERT_NONE", "any server is taken for Redis"),
        ("rediss://10.0.0.5?db=0&ssl_check_hostname=False", "any certificate will do"),
        ("rediss://10.0.0.5?ssl_check_hostname=0", "any certificate will do"),
        (f"rediss://:{SECRET}@h?ssl_ca_certs=/nowhere/ca.pem", "/nowhere/ca.pem (ssl_ca_certs"),
        (f"http://:{SECRET}@h", "is not valid"),
        (f"redis://:{SECRET}@[::1", "is not valid"),
        (SECRET, "is not valid"),
    ],
)
async def test_a_way_that_others_may_read_or_change_needs_action(url: str, words: str) -> None:
    finding = await redis_finding(url)
    assert (finding.topic, finding.verdict) == ("redis", "act")
    assert words in finding.text
    assert SECRET not in finding.text


async def test_an_authority_that_can_be_read_is_well(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    finding = await redis_finding(f"rediss://redis:6379/0?ssl_ca_certs={tmp_path / 'ca.pem'}")
    assert (finding.verdict, finding.text) == ("well", "redis, over TLS")
