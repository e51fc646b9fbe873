"""The settings of resumable uploads."""

import msgspec
import pytest

from api.intake.limits import UploadLimits


def test_an_upload_is_kept_for_a_day_unless_set_otherwise() -> None:
    assert UploadLimits().keep_us == 24 * 3600 * 1_000_000
    assert UploadLimits(keep_hours=0.5).keep_us == 1800 * 1_000_000


@pytest.mark.parametrize("wrong", [{"most_bytes": 0}, {"keep_hours": 0}, {"keep_days": 1}])
def test_a_limit_out_of_its_bounds_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, UploadLimits)
