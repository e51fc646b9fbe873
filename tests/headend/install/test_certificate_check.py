"""How long certificates are valid; the doctor's tests have the operator's own."""

import datetime
from pathlib import Path

from headend.config.settings import ServiceSettings
from headend.install.certificate_check import check_certificates
from headend.install.certificates import ensure_local_certificates
from media.ticks import DAY_US

NOW = datetime.datetime(2027, 1, 15, tzinfo=datetime.UTC)
NOW_US = 1_800_000_000_000_000 - 28_800_000_000


def test_the_local_ones_are_due_two_weeks_before_their_end(tmp_path: Path) -> None:
    ensure_local_certificates(tmp_path, ["localhost"], NOW)
    settings = ServiceSettings()
    assert [each.verdict for each in check_certificates(settings, tmp_path, NOW_US)] == ["well"] * 2
    found = check_certificates(settings, tmp_path, NOW_US + 36_500 * DAY_US)
    assert [each.verdict for each in found] == ["act"] * 2
    assert check_certificates(settings, tmp_path / "none", NOW_US) == []
